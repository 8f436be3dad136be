"""Rank 0's side of the others: starts those of its node, tells all of them what to do, and watches that they do it.

A thread looks after the ranks' processes and their last-step words. When one has ended, hangs, or is not heard of any more, the
reason is kept, the others are ended with it, and so the collective in which rank 0 may wait; whatever rank 0 does next raises
RankError with that reason.
"""

import mmap
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.devices import device_of
from octavo_runtime.engine.ranks import orders
from octavo_runtime.engine.ranks.membership import Alone
from octavo_runtime.engine.ranks.orders import Agreed, Order
from octavo_runtime.engine.ranks.placement import Placement, placement
from octavo_runtime.engine.ranks.processes import LOST_OTHERS, end_ranks, how_it_ended, ranks_folder, start_rank
from octavo_runtime.engine.ranks.rendezvous import PATIENCE_S, join, open_store, own_address
from octavo_runtime.engine.ranks.ring import RingWriter
from octavo_runtime.engine.ranks.shared_pools import SharedPools
from octavo_runtime.engine.ranks.verdict import hung, last_step
from octavo_runtime.engine.ranks.wire import LeaderWire
from octavo_runtime.engine.ranks.words import OwnWord, Words
from octavo_runtime.engine.reservation import Reservation
from octavo_runtime.model.collectives import Collectives, RankError
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.weights import open_checkpoint
from octavo_sizing.errors import DegreeError
from octavo_sizing.sharding import check_degree

_LOOK_EVERY_S = 0.1
_LAST_WORDS_S = 2.0  # how long a broken collective waits for the watch to find the reason


def lead(config: ServeConfig, progress: Callable[[int], None]) -> "Leader | Alone":
    """The ranks of `config`, with this process as rank 0. Raises ConfigError for what cannot be, and RankError."""
    placed = placement(config, os.environ)
    if placed.size == 1:
        return Alone()
    if config.batch_invariant:
        raise ConfigError(
            f"--batch-invariant with --tensor-parallel-size {placed.size}: sums over ranks depend on the batch; leave one out"
        )
    try:
        check_degree(open_checkpoint(config.model_path).config, placed.size, "--tensor-parallel-size")
    except DegreeError as error:
        raise ConfigError(str(error)) from error
    device = device_of(config, placed, 0)
    if _has_tiers(config) and (placed.nodes > 1 or device.type != "cpu"):
        raise ConfigError(
            f"--kv-tier-memory, --kv-tier-disk: with --tensor-parallel-size {placed.size} on CPUs of one node only; leave them out"
        )
    return Leader(config, placed, device, progress)


def _has_tiers(config: ServeConfig) -> bool:
    return config.kv_tier_memory is not None or config.kv_tier_disk is not None


class Leader:
    """`Ranks`, as rank 0 has them. `close` ends those of this node."""

    rank = 0

    def __init__(
        self, config: ServeConfig, placed: Placement, device: torch.device, progress: Callable[[int], None]
    ) -> None:
        """Starts the ranks and waits until all are there. Raises RankError and ConfigError."""
        self.placement = placed
        self.device = device
        self._progress = progress
        host = own_address(placed)
        self._folder = ranks_folder(config)
        self._failure: str | None = None
        self._lost_at_s = 0.0
        self._failed = threading.Event()
        self._closing = threading.Event()
        folder = Path(self._folder.name)
        self._words = Words(folder / "words", placed.size)
        self._word = OwnWord(self._words, 0)
        self._wire = LeaderWire(placed, host) if placed.nodes > 1 else None
        self._pools = SharedPools(placed.ranks_here) if _has_tiers(config) else None
        self._processes = {
            rank: start_rank(config, rank, folder, self._pools.file(rank) if self._pools is not None else None)
            for rank in placed.ranks_here
            if rank
        }
        self._ring = RingWriter(folder / "ring", [_bell(one) for one in self._processes.values()], self.check)
        self._watch = threading.Thread(target=self._look_after, name="rank-watch", daemon=True)
        self._watch.start()
        self._joined: Collectives | None = None
        try:
            store = open_store(placed, 0, folder)
            self.agree(0)
            self._joined = self.collectives = join(store, placed, 0, device, self._word.tick)
            self.collectives.why = self._why
        except BaseException:
            self.close()
            raise

    @property
    def agree_on_memory(self) -> bool:
        """Whether a step for which one rank finds no memory fails on all of them; otherwise that rank fails."""
        return self.collectives.votes is not None

    def tell(self, order: Order) -> None:
        """All other ranks. Raises RankError."""
        self.check()
        message = orders.encoder.encode(order)
        if isinstance(order, orders.Step):
            self._word.step(order.plan.step)
        if isinstance(order, orders.Serve):
            self._word.serve()
        try:
            self._ring.put(message)
        except BrokenPipeError as error:
            raise RankError(self._why(f"a rank has ended: {error}")) from error
        if self._wire is not None:
            self._wire.send(message)

    def agree(self, value: int) -> int:
        """The least of all ranks' numbers, once all have come here. Raises RankError."""
        meeting = self._word.meet(value)
        patience_until_s = time.monotonic() + PATIENCE_S
        while missing := self._missing(meeting):
            self.check()
            if time.monotonic() > patience_until_s:
                raise RankError(f"rank {missing[0]} has not come up to the others for {PATIENCE_S:.0f} s")
            self._progress(0)
            time.sleep(_LOOK_EVERY_S)
        least = min(self._words.read(rank).value for rank in range(self.placement.size))
        self.tell(Agreed(least))
        return least

    def kv_memory(self, reserved: Reservation) -> Callable[[int], mmap.mmap]:
        if self._pools is None:
            return reserved.take
        reserved.release()
        return self._pools.own_memory

    def all_pools(self, own: KvPool) -> KvPool:
        """The pages of all ranks as if they were one's, where tiers are asked for."""
        return own if self._pools is None else self._pools.joined(own)

    def check(self) -> None:
        """Raises RankError when a rank has failed."""
        if self._failure is not None:
            raise RankError(self._failure)

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._watch.join()
        end_ranks(list(self._processes.values()))
        self._ring.close()
        if self._wire is not None:
            self._wire.close()
        if self._pools is not None:
            self._pools.close()
        self._word.close()
        self._words.close()
        self._folder.cleanup()

    def _missing(self, meeting: int) -> list[int]:
        return [rank for rank in range(self.placement.size) if self._words.read(rank).meeting < meeting]

    def _look_after(self) -> None:
        while not self._closing.is_set() and self._failure is None:
            if self._wire is None:
                self._closing.wait(_LOOK_EVERY_S)
            else:
                self._wire.listen(self._words, int(1000 * _LOOK_EVERY_S))
            reason = None if self._closing.is_set() else self._what_failed(time.monotonic())
            if reason is not None:
                self._fail(reason)

    def _what_failed(self, now_s: float) -> str | None:
        words = [self._words.read(rank) for rank in range(self.placement.size)]
        ended = {rank: code for rank, process in self._processes.items() if (code := process.poll()) is not None}
        first = min(ended, key=lambda rank: ended[rank] == LOST_OTHERS, default=None)
        if first is not None and (ended[first] != LOST_OTHERS or self._has_waited_for_the_cause(now_s)):
            told = f"{words[first].reason}; " if words[first].reason else ""
            process = f"process {self._processes[first].pid}"
            return f"rank {first} ({process}) ended ({how_it_ended(ended[first])}): {told}{last_step(words[first])}"
        told_of = next((word for word in words[1:] if word.reason), None)
        if told_of is not None:
            return f"rank {told_of.rank} (process {told_of.pid}) ended: {told_of.reason}; {last_step(told_of)}"
        silent = self._wire.silent(now_s) if self._wire is not None else None
        if silent is not None:
            return f"rank {silent} on another node is not heard of any more; {last_step(words[silent])}"
        return hung(words, now_s)

    def _has_waited_for_the_cause(self, now_s: float) -> bool:
        """A rank that ended because it lost others is seen before them now and then."""
        self._lost_at_s = self._lost_at_s or now_s
        return now_s - self._lost_at_s > _LAST_WORDS_S / 2

    def _fail(self, reason: str) -> None:
        self._failure = reason
        self._failed.set()
        for process in self._processes.values():
            process.kill()
        if self._joined is not None:
            self._joined.abort()

    def _why(self, text: str) -> str:
        """The reason of a broken collective: what the watch finds, which may take it a moment."""
        self._failed.wait(_LAST_WORDS_S)
        return self._failure or text


def _bell(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdin is not None
    return process.stdin.fileno()
