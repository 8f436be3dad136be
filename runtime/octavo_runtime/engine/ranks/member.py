"""A rank other than 0: loads its part of the model, then does what rank 0 tells it, until its process is ended."""

import functools
import logging
import mmap
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.allocation import AllocationError
from octavo_runtime.engine.devices import device_of
from octavo_runtime.engine.loading import LoadedModel, load
from octavo_runtime.engine.pipeline import Pipeline
from octavo_runtime.engine.plan import StepPlan
from octavo_runtime.engine.ranks import orders
from octavo_runtime.engine.ranks.orders import Agreed, Begin, Order, Prepare, Reset, Serve, Step
from octavo_runtime.engine.ranks.placement import Placement, placement
from octavo_runtime.engine.ranks.processes import CANNOT_START, LOST_OTHERS
from octavo_runtime.engine.ranks.rendezvous import join, open_store
from octavo_runtime.engine.ranks.ring import RingClosedError, RingReader
from octavo_runtime.engine.ranks.shared_pools import inherited_memory
from octavo_runtime.engine.ranks.wire import MemberWire
from octavo_runtime.engine.ranks.words import OwnWord, Words
from octavo_runtime.engine.reservation import Reservation
from octavo_runtime.engine.runners import new_runner, prepare
from octavo_runtime.model.collectives import RankError
from octavo_runtime.model.config import ModelError

log = logging.getLogger("octavo.engine")

_STDIN = 0


def main(config: ServeConfig, rank: int, folder: Path, pool: int | None) -> int:
    """The exit code; why it ends is in the rank's word."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # reaches the whole group; rank 0's process decides when we end
    placed = placement(config, os.environ)
    word = OwnWord(Words(folder / "words", placed.size), rank)
    try:
        member = Member(placed, word, folder, device_of(config, placed, rank), pool)
        follow(member, load(config, lambda percent: None, ranks=member))
    except RingClosedError:
        return 0
    except (ModelError, ConfigError) as error:
        word.tell(str(error))
        return CANNOT_START
    except RankError as error:
        log.warning("%s", error)
        return LOST_OTHERS
    except Exception as error:  # the outermost frame: rank 0 needs a reason whatever it is
        log.exception("rank %d failed", rank)
        word.tell(f"{type(error).__name__}: {error}")
        return 1
    return 0


class Orders(Protocol):
    def take(self) -> bytes: ...


class Member:
    """`Ranks`, as one of the others sees them."""

    def __init__(self, placed: Placement, word: OwnWord, folder: Path, device: torch.device, pool: int | None) -> None:
        """Waits until all ranks are there."""
        self._pool = pool
        self.placement = placed
        self.rank = word.rank
        self.device = device
        self.word = word
        self._orders = _orders(placed, word, folder)
        self.agree(0)  # from then on the store is rank 0's of today, not of one that has just ended
        store = open_store(placed, word.rank, folder)
        self.collectives = join(store, placed, word.rank, device, word.tick)

    def agree(self, value: int) -> int:
        self.word.meet(value)
        order = self.take()
        assert isinstance(order, Agreed)
        return order.least

    def kv_memory(self, reserved: Reservation) -> Callable[[int], mmap.mmap]:
        if self._pool is None:
            return reserved.take
        reserved.release()
        return functools.partial(inherited_memory, self._pool)

    def take(self) -> Order:
        """The next order. Raises RingClosedError."""
        return orders.decoder.decode(self._orders.take())


def _orders(placed: Placement, word: OwnWord, folder: Path) -> Orders:
    if placed.node:
        return MemberWire(placed.leader, word)
    readers = placed.ranks_here[1:]
    return RingReader(folder / "ring", readers.index(word.rank), len(readers), _STDIN)


def follow(member: Member, loaded: LoadedModel) -> None:
    """Do as rank 0 tells, until it is gone: RingClosedError. What steps give is dropped, for rank 0 has it too."""
    begin = member.take()
    assert isinstance(begin, Begin)
    runner = new_runner(loaded, begin.max_num_seqs, begin.max_num_batched_tokens, member)
    pipeline = Pipeline(runner)
    while True:
        match member.take():
            case Step(plan):
                if pipeline.full:
                    pipeline.collect()
                member.word.step(plan.step)
                _submit(pipeline, plan, member.collectives.votes is not None)
            case Reset():
                while pipeline.oldest is not None:
                    pipeline.collect()
                pipeline.reset()
            case Prepare():
                prepare(runner, lambda percent: None)
            case Serve():
                member.word.serve()
            case other:
                raise AssertionError(f"an order out of turn: {other}")


def _submit(pipeline: Pipeline, plan: StepPlan, agreed: bool) -> None:
    """`agreed`: a step that finds no memory failed on all ranks, and rank 0 plans anew."""
    try:
        pipeline.submit(plan)
    except AllocationError:
        if not agreed:
            raise
        pipeline.abandon(plan)
