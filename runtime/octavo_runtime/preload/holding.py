"""A file kept in memory: mapped, read in, and locked where asked. What is mapped is not dropped with the page cache's other files.

Without a lock the kernel may still take pages back under pressure; `refresh` reads them in again.
"""

import ctypes
import errno
import mmap
import os
from pathlib import Path

_FAILED = ctypes.c_void_p(-1).value  # MAP_FAILED
_POPULATE_READ = 22  # MADV_POPULATE_READ, Linux 5.14
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_LIBC.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_LIBC.mlock.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


class HoldingError(Exception):
    """The file cannot be kept in memory; the text says why and what helps."""


class Holding:
    """One file, until `close`. Raises OSError where it cannot be opened and HoldingError where it cannot be locked."""

    def __init__(self, path: Path, lock: bool) -> None:
        self.path = path
        self.locked = lock
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            self._identity = found.st_dev, found.st_ino
            self.size_bytes = found.st_size
            self._address = _LIBC.mmap(None, self.size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        finally:
            os.close(descriptor)
        if self._address == _FAILED:
            raise _os_error()
        _LIBC.madvise(self._address, self.size_bytes, mmap.MADV_HUGEPAGE)  # as the runtime maps it; a wish
        if lock and _LIBC.mlock(self._address, self.size_bytes):
            error = _os_error()
            self.close()
            raise HoldingError(
                f"--lock: the system does not lock the {self.size_bytes >> 20} MiB of {path} ({error.strerror}): raise the limit "
                "of locked memory (ulimit -l, or the capability IPC_LOCK), or leave --lock out"
            )
        self.refresh()

    def refresh(self) -> None:
        """Read in what is not in memory."""
        if _LIBC.madvise(self._address, self.size_bytes, _POPULATE_READ) and ctypes.get_errno() == errno.EINVAL:
            for offset in range(0, self.size_bytes, mmap.PAGESIZE):  # a kernel that does not know the advice
                ctypes.string_at(self._address + offset, 1)

    def resident_bytes(self) -> int:
        """How much of it is in memory now."""
        pages = ctypes.create_string_buffer(-(-self.size_bytes // mmap.PAGESIZE))
        if _LIBC.mincore(self._address, self.size_bytes, pages):
            raise _os_error()
        return min(self.size_bytes, sum(page & 1 for page in pages.raw[: len(pages)]) * mmap.PAGESIZE)

    def is_current(self) -> bool:
        """Whether this is still the file of that name."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def close(self) -> None:
        _LIBC.munmap(self._address, self.size_bytes)


def _os_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
