"""Memory for KV pages, asked of the kernel by a thread while torch is imported and weights are read.

Making 2 GiB really there takes the kernel a second of one core; beside the import it costs a start nothing. Torch-free, for it
begins before torch does. What is reserved is zeros, so pages need no filling.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import sys
import threading
from pathlib import Path

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.memory import available_bytes

DEFAULT_KV_BYTES = 2 << 30  # on a CPU, where the machine has it to spare

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14
_CHUNK_BYTES = 64 << 20
# Weights at least double between file and memory (2 bits to 16, and the tensor being packed beside the packed ones), torch and the
# largest step take some hundred MiB: a start with less than this to spare reserves when its weights are in memory.
_WEIGHTS_FACTOR = 8
_SPARE_BYTES = 2 << 30
_GPU_FILES = ("dev/nvidiactl", "dev/kfd")


class Reservation:
    """`size_bytes` of zeroed memory that a thread makes really there. One `take` or `release` ends it."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._error: OSError | None = None
        self._given_up = False
        self._memory: mmap.mmap | None = None
        self._thread = threading.Thread(target=self._populate, name="reservation", daemon=True)
        try:
            self._memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with contextlib.suppress(OSError):  # a kernel without huge pages
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError as error:
            self._error = error
        else:
            self._thread.start()

    def wait(self) -> None:
        """Until all of it is there. Raises ConfigError where the kernel refused it."""
        if self._memory is not None:
            self._thread.join()
        if self._error is not None:
            raise ConfigError(
                f"--kv-cache-memory: the system refuses the memory for KV pages ({self._error.strerror}): lower it"
            ) from self._error

    def take(self, size_bytes: int) -> mmap.mmap:
        """The first `size_bytes` of it; the rest goes back. Raises ConfigError like `wait`."""
        assert 0 < size_bytes <= self.size_bytes
        self.wait()
        assert self._memory is not None
        whole = -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        if whole < len(self._memory):
            self._memory.resize(whole)
        return self._memory

    def release(self) -> None:
        """Give all of it back."""
        self._given_up = True
        if self._memory is not None:
            self._thread.join()
            self._memory.close()

    def _populate(self) -> None:
        assert self._memory is not None
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for begin in range(0, self.size_bytes, _CHUNK_BYTES):
            if self._given_up:
                return
            try:
                _make_there(address + begin, min(_CHUNK_BYTES, self.size_bytes - begin))
            except OSError as error:
                self._error = error
                return


def reserve_early(config: ServeConfig, root: Path = Path("/")) -> Reservation | None:
    """Begin with what `loading` will settle anyhow; None where that cannot be told yet or the memory is scarce."""
    if config.tensor_parallel_size > 1 or not _runs_on_cpu(config, root):
        return None
    asked, below = config.kv_cache_memory, config.kv_overflow_memory or 0
    spare = available_bytes(root) - below - _WEIGHTS_FACTOR * _stored_bytes(config.model_path) - _SPARE_BYTES
    # By default KV pages take at most half of what the weights leave.
    wanted, limit = (asked, spare) if asked is not None else (DEFAULT_KV_BYTES, spare // 2)
    return Reservation(wanted + below) if 0 < wanted <= limit else None


def _runs_on_cpu(config: ServeConfig, root: Path) -> bool:
    """`auto` takes a GPU where torch sees one, for which the driver's file must be there."""
    return config.device == "cpu" or (
        config.device == "auto" and not any((root / name).exists() for name in _GPU_FILES)
    )


def _stored_bytes(model: Path) -> int:
    files = model.glob("*.safetensors") if model.is_dir() else [model]
    return sum(file.stat().st_size for file in files if file.is_file())


def _make_there(address: int, size_bytes: int) -> None:
    """Raises OSError. The calls leave the interpreter to other threads."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if sys.platform == "linux" and libc.madvise(address, size_bytes, _POPULATE_WRITE) == 0:
        return
    number = ctypes.get_errno()
    if sys.platform == "linux" and number != errno.EINVAL:  # EINVAL: a kernel that does not know the advice
        raise OSError(number, os.strerror(number))
    ctypes.memset(address, 0, size_bytes)
