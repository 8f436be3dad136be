"""KV pools of a node's ranks in memory that rank 0 maps too: what moves pages to tiers and back then moves a page of all ranks at
once, as if it were one.

Each pool is a file without a name (memfd) that rank 0 makes and its ranks inherit. Rank 0 takes the memory for all of them. It
reads other ranks' pages between steps only: when its own step is done they have written theirs, as its last sum over the ranks
waited for them. It writes pages that no step uses until a later plan says so.
"""

import functools
import mmap
import os

from octavo_runtime.config import ConfigError
from octavo_runtime.model.kv_pool import KvPool


class SharedPools:
    """Rank 0's side."""

    def __init__(self, ranks: range) -> None:
        self._files = {rank: os.memfd_create(f"octavo-kv-{rank}") for rank in ranks}

    def file(self, rank: int) -> int:
        """For the rank to inherit."""
        return self._files[rank]

    def own_memory(self, size_bytes: int) -> mmap.mmap:
        """Zeros for rank 0's pool. Raises ConfigError where there is no memory for all ranks'."""
        for file in self._files.values():
            _reserve(file, size_bytes)
        return mmap.mmap(self._files[0], size_bytes)

    def joined(self, own: KvPool) -> KvPool:
        """All ranks' layers, for whoever moves whole pages."""
        shape = len(own.layers), own.pages, own.page_bytes, own.layers[0].device
        others = [KvPool(*shape, functools.partial(mmap.mmap, file)) for rank, file in self._files.items() if rank != 0]
        return KvPool.joined([own, *others])

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)


def inherited_memory(file: int, size_bytes: int) -> mmap.mmap:
    """Zeros for another rank's pool. Raises ConfigError where there is no memory for it."""
    _reserve(file, size_bytes)
    return mmap.mmap(file, size_bytes)


def _reserve(file: int, size_bytes: int) -> None:
    try:
        os.posix_fallocate(file, 0, size_bytes)
    except OSError as error:
        raise ConfigError(
            f"--kv-cache-memory: the system refuses the memory for KV pages ({error.strerror}): lower it"
        ) from error
