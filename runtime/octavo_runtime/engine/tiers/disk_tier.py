"""Blocks in files: written and read by a thread of their own, so that a slow disk holds up nobody but who waits for its blocks.

A block is written when it comes into the memory tier, not when it leaves it: memory then gives up rows without waiting, and after a
restart the disk has what was used last. What the queue has no room for, or a full disk, is not kept here.
"""

import functools
import logging
import time
from collections.abc import Callable
from pathlib import Path

from octavo_runtime.engine.tiers import block_file
from octavo_runtime.engine.tiers.block_file import BlockKind, Row
from octavo_runtime.engine.tiers.disk_store import DiskStore
from octavo_runtime.engine.tiers.page_mover import PageMover
from octavo_runtime.engine.tiers.restoring import Brought, TierCounts, TierJob, Wanted, bring
from octavo_runtime.engine.tiers.transfer_worker import Landing, TransferWorker
from octavo_runtime.messages import TierStats

log = logging.getLogger("octavo.engine")

WRITES_WAITING_MOST = 32  # blocks; each pins a row of the memory tier
PAUSE_S = 5.0  # after a write that failed: a full disk is not tried with every block


class DiskTier:
    def __init__(self, mover: PageMover, kind: BlockKind, store: DiskStore) -> None:
        self._mover = mover
        self._kind = kind
        self._scratch: Row = mover.rows(1)[0]
        self._counts = TierCounts()
        self.writing = 0  # blocks that are not written yet
        self._paused_until_s = 0.0
        self.store = store
        self.worker = TransferWorker("tier-disk")

    def keep(self, key: bytes, content: Row, checksum: int, done: Callable[[], None]) -> None:
        """Write a block, if there is room in the queue and within the bound; `content` must stay until `done` is called."""
        if self.store.find(key) is not None:
            return done()
        late = self.writing >= WRITES_WAITING_MOST or time.monotonic() < self._paused_until_s
        deleted = None if late else self.store.make_room()
        if deleted is None:
            self._counts.dropped += 1
            return done()
        self.writing += 1
        path = self.store.path(key)
        write = functools.partial(block_file.write, path, self._kind, key, content, checksum)
        self.worker.give(functools.partial(self._write, path, deleted, write, done))
        return None

    def bring(self, job: TierJob, wanted: list[Wanted]) -> None:
        """Blocks that `store.find` has just given."""
        job.begin_part()
        self.worker.give(functools.partial(self._bring, job, wanted), urgent=True)

    def predicted_s(self, blocks: int) -> float | None:
        """With the time that what it does now has taken already: a disk that hangs is expected to go on so."""
        if not blocks:
            return 0.0
        read_s = self._counts.speed.seconds_for(blocks * self._kind.file_bytes)
        return None if read_s is None else read_s + self.worker.busy_s

    def stats(self) -> TierStats:
        return self._counts.stats("disk", self.store.blocks, self.store.bytes)

    # In the worker's thread:

    def _write(self, path: Path, deleted: list[Path], write: Callable[[], None], done: Callable[[], None]) -> Landing:
        try:
            for unused in deleted:
                unused.unlink(missing_ok=True)
            write()
        except OSError as error:
            return functools.partial(self._not_written, error, done)
        return functools.partial(self._written, path, done)

    def _bring(self, job: TierJob, wanted: list[Wanted]) -> Landing:
        brought = bring(job, wanted, self._read, self._mover.scatter)
        return functools.partial(self._brought, job, brought)

    def _read(self, wanted: Wanted) -> Row | None:
        path = self.store.path(wanted.key)
        if block_file.read(path, self._kind, wanted.key, self._scratch):
            return self._scratch
        path.unlink(missing_ok=True)
        return None

    # In the engine's loop:

    def _written(self, path: Path, done: Callable[[], None]) -> None:
        self.writing -= 1
        self._counts.written_bytes += self._kind.file_bytes
        self.store.written(path)
        done()

    def _not_written(self, error: OSError, done: Callable[[], None]) -> None:
        self.writing -= 1
        self._counts.dropped += 1
        self.store.failed()
        if time.monotonic() >= self._paused_until_s:
            log.warning("the disk tier keeps no new blocks for %g s: %s", PAUSE_S, error)
        self._paused_until_s = time.monotonic() + PAUSE_S
        done()

    def _brought(self, job: TierJob, brought: Brought) -> None:
        job.land_part(brought.arrived)
        self._counts.brought(brought, self._kind.file_bytes)
        if brought.spoiled is not None:
            path = self.store.path(brought.spoiled.key)
            log.warning("%s was torn or is not the block that its name says: dropped, it is computed again", path)
            self.store.drop(path)
