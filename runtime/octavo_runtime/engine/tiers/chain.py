"""Memory, and disk below it, as one `BlockStore`.

What is put goes to memory, and from there to the disk as well; what is wanted comes from the fastest tier that has it.
"""

import functools
from collections.abc import Sequence

from octavo_runtime.engine.block_store import Found
from octavo_runtime.engine.tiers.block_file import BlockKind
from octavo_runtime.engine.tiers.disk_store import DiskStore
from octavo_runtime.engine.tiers.disk_tier import DiskTier
from octavo_runtime.engine.tiers.memory_store import MemoryBlock
from octavo_runtime.engine.tiers.memory_tier import MemoryTier
from octavo_runtime.engine.tiers.page_mover import PageMover
from octavo_runtime.engine.tiers.restoring import TierJob, Wanted
from octavo_runtime.messages import TierStats


class TierChain:
    """`rows`: blocks of the memory tier. Owns threads, and the disk's folder: `close` ends that."""

    def __init__(self, mover: PageMover, kind: BlockKind, rows: int, disk: DiskStore | None = None) -> None:
        self._memory = MemoryTier(mover, kind, rows, self._sealed)
        self._disk = DiskTier(mover, kind, disk) if disk is not None else None

    def close(self) -> None:
        """What was put is written yet, unless the disk hangs."""
        self._memory.worker.close()
        self._memory.worker.poll()
        if self._disk is not None:
            self._disk.worker.close()
            self._disk.worker.poll()
            self._disk.store.close()

    @property
    def lasting_blocks(self) -> int:
        return 0 if self._disk is None else self._disk.store.most_blocks

    @property
    def on_their_way(self) -> int:
        return self._memory.sealing + (self._disk.writing if self._disk is not None else 0)

    def has(self, key: bytes) -> bool:
        return key in self._memory.store or (self._disk is not None and key in self._disk.store)

    def lasts(self, key: bytes) -> bool:
        return self._disk is not None and self._disk.store.find(key) is not None

    def lookup(self, keys: Sequence[bytes]) -> Found:
        in_memory = on_disk = 0
        for key in keys:
            if self._memory.store.find(key) is not None:
                in_memory += 1
            elif self._disk is not None and self._disk.store.find(key) is not None:
                on_disk += 1
            else:
                break
        return Found(in_memory + on_disk, self._predicted_s(in_memory, on_disk))

    def put(self, keys: Sequence[bytes], pages: Sequence[int]) -> int:
        return self._memory.put(keys, pages)

    def get(self, keys: Sequence[bytes], pages: Sequence[int]) -> TierJob:
        job = TierJob(len(keys))
        in_memory, on_disk = [], []
        for place, (key, page) in enumerate(zip(keys, pages, strict=True)):
            if self._memory.store.find(key) is not None:
                in_memory.append(Wanted(place, key, page))
            elif self._disk is not None and self._disk.store.find(key) is not None:
                on_disk.append(Wanted(place, key, page))
            else:
                break
        if in_memory:
            self._memory.bring(job, in_memory)
        if on_disk and self._disk is not None:
            self._disk.bring(job, on_disk)
        return job

    def poll(self) -> None:
        self._memory.worker.poll()
        if self._disk is not None:
            self._disk.worker.poll()

    def stats(self) -> list[TierStats]:
        return [tier.stats() for tier in (self._memory, self._disk) if tier is not None]

    def _predicted_s(self, in_memory: int, on_disk: int) -> float | None:
        memory_s = self._memory.predicted_s(in_memory)
        disk_s = self._disk.predicted_s(on_disk) if self._disk is not None else 0.0
        return None if memory_s is None or disk_s is None else memory_s + disk_s

    def _sealed(self, block: MemoryBlock) -> None:
        unpin = functools.partial(self._memory.store.unpin, block)
        if self._disk is None:
            return unpin()
        assert block.checksum is not None
        return self._disk.keep(block.key, self._memory.content(block), block.checksum, unpin)
