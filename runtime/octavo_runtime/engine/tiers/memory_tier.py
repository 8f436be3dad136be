"""Blocks in the host's memory: copied there when they are put, their checksums worked out by a thread of their own."""

import functools
import logging
from collections.abc import Callable, Sequence

from octavo_runtime.engine.tiers.block_file import BlockKind, Row
from octavo_runtime.engine.tiers.memory_store import MemoryBlock, MemoryStore
from octavo_runtime.engine.tiers.page_mover import PageMover
from octavo_runtime.engine.tiers.restoring import Brought, TierCounts, TierJob, Wanted, bring
from octavo_runtime.engine.tiers.transfer_worker import Landing, TransferWorker
from octavo_runtime.messages import TierStats

log = logging.getLogger("octavo.engine")


class MemoryTier:
    """`sealed` is told of each block that is put when its content and checksum are there; it unpins the block when done with it."""

    def __init__(self, mover: PageMover, kind: BlockKind, rows: int, sealed: Callable[[MemoryBlock], None]) -> None:
        self._mover = mover
        self._kind = kind
        self._told = sealed
        self._rows = mover.rows(rows)
        self._counts = TierCounts()
        self.sealing = 0  # blocks whose checksum is not there yet
        self.store = MemoryStore(rows)
        self.worker = TransferWorker("tier-memory")

    def put(self, keys: Sequence[bytes], pages: Sequence[int]) -> int:
        """How many of them are here now."""
        kept = 0
        fresh: list[tuple[MemoryBlock, int]] = []
        for key, page in zip(keys, pages, strict=True):
            if (old := self.store.find(key)) is not None:
                kept += 1
                self._tell_again(old)
            elif (block := self.store.claim(key)) is not None:
                fresh.append((block, page))
            else:
                self._counts.dropped += 1
        most = self._mover.most_at_once
        return kept + sum(self._gather(fresh[first : first + most]) for first in range(0, len(fresh), most))

    def bring(self, job: TierJob, wanted: list[Wanted]) -> None:
        """Blocks that `store.find` has just given."""
        blocks: dict[Wanted, MemoryBlock] = {}
        for one in wanted:
            block = self.store.find(one.key)
            assert block is not None
            block.pins += 1
            blocks[one] = block
        job.begin_part()
        self.worker.give(functools.partial(self._bring, job, blocks), urgent=True)

    def predicted_s(self, blocks: int) -> float | None:
        return self._counts.speed.seconds_for(blocks * self._kind.block_bytes) if blocks else 0.0

    def content(self, block: MemoryBlock) -> Row:
        row: Row = self._rows[block.row]
        return row

    def stats(self) -> TierStats:
        held = len(self.store)
        return self._counts.stats("memory", held, held * self._kind.block_bytes)

    def _gather(self, blocks: list[tuple[MemoryBlock, int]]) -> int:
        arrive = self._mover.gather([page for _, page in blocks], [self.content(block) for block, _ in blocks])
        for block, _ in blocks:
            if arrive is None:
                self._counts.dropped += 1
                self.store.drop(block)
                self.store.unpin(block)
            else:
                block.arrive = arrive
                self.sealing += 1
                self.worker.give(functools.partial(self._seal, block))
        return 0 if arrive is None else len(blocks)

    def _tell_again(self, block: MemoryBlock) -> None:
        """The tier below may have had no room for it before."""
        if block.checksum is not None and not block.pins:
            block.pins += 1
            self._told(block)

    # In the worker's thread:

    def _seal(self, block: MemoryBlock) -> Landing:
        """Whether it is new is seen by the checksum: bringing it back may have been faster."""
        if block.checksum is None:
            assert block.arrive is not None
            block.arrive()
            block.checksum = self._kind.checksum(block.key, self.content(block))
        return functools.partial(self._sealed, block)

    def _bring(self, job: TierJob, blocks: dict[Wanted, MemoryBlock]) -> Landing:
        brought = bring(job, list(blocks), lambda one: self._checked(blocks[one]), self._mover.scatter)
        return functools.partial(self._brought, job, blocks, brought)

    def _checked(self, block: MemoryBlock) -> Row | None:
        if block.checksum is None:
            self._seal(block)
        content = self.content(block)
        return content if self._kind.checksum(block.key, content) == block.checksum else None

    # In the engine's loop:

    def _sealed(self, block: MemoryBlock) -> None:
        self.sealing -= 1
        self._counts.written_bytes += self._kind.block_bytes
        self._told(block)

    def _brought(self, job: TierJob, blocks: dict[Wanted, MemoryBlock], brought: Brought) -> None:
        job.land_part(brought.arrived)
        self._counts.brought(brought, self._kind.block_bytes)
        if brought.spoiled is not None:
            log.warning("a block of the memory tier has changed since it was put: dropped, it is computed again")
            self.store.drop(blocks[brought.spoiled])
        for block in blocks.values():
            self.store.unpin(block)
