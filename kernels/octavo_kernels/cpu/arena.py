"""Memory for packed weights in large pieces, which the kernel may back with huge pages.

A step of one token reads every weight once. With pages of 4 KiB the CPU walks a page table for each of them, which costs such a
step about a tenth of its time.
"""

import contextlib
import mmap

import torch
from torch import Tensor

_PIECE_BYTES = 64 << 20
_ALIGNMENT = 64  # a cache line


class Arena:
    """Hands out parts of its pieces; a piece goes back when no tensor lies in it any more."""

    def __init__(self) -> None:
        self._piece = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def empty(self, size_bytes: int) -> Tensor:
        """uint8 `[size_bytes]`, at the begin of a cache line."""
        if self._used + size_bytes > len(self._piece):
            memory = mmap.mmap(-1, max(size_bytes, _PIECE_BYTES), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with contextlib.suppress(OSError):  # a kernel without huge pages
                memory.madvise(mmap.MADV_HUGEPAGE)
            self._piece, self._used = torch.frombuffer(memory, dtype=torch.uint8), 0
        part = self._piece[self._used : self._used + size_bytes]
        self._used += -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
        return part
