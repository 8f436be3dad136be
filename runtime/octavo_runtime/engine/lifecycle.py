"""The life of requests and their sequences: waiting, running, finished, and every way from one to another.

add → WAITING → enter → (FETCHING →) RUNNING → finish → FINISHED
          ↑ preempt: WAITING or SWAPPED ↵  ↳ fork: further sequences, running beside it or waiting
abort and the deadline finish a sequence in any state; `leave` is the one way out of the batch. A sequence can leave while steps
in flight compute for it: nobody takes what they draw, and its pages and its slot return when they are collected. Only those that
nothing in flight computes for are preempted or forked.
"""

import collections
import itertools
import time
from collections.abc import Callable, Iterator

from octavo_runtime.engine.batch import Batch
from octavo_runtime.engine.block_pool import BlockPool, Match
from octavo_runtime.engine.block_store import BlockStore, OverflowPages
from octavo_runtime.engine.prefix_index import CacheIdentity
from octavo_runtime.engine.request import Request, Sequence, State, width
from octavo_runtime.engine.selective import KvBudget
from octavo_runtime.engine.tables import Tables
from octavo_runtime.engine.tiering import Tiering
from octavo_runtime.engine.waiting import WaitingQueue
from octavo_runtime.messages import AddRequest

SPILL_SHARE = 8  # of the pool goes to the overflow at once


class Lifecycle:
    """`ahead`: whether steps are planned while others are in flight."""

    def __init__(
        self,
        pool: BlockPool,
        slots: int,
        identity: CacheIdentity | None,
        ahead: bool = False,
        store: BlockStore | None = None,
        overflow: OverflowPages | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pool = pool
        self.tiering = Tiering(pool, store, clock_s)
        self._overflow = overflow
        self.tables = Tables(pool, identity, ahead)
        self.waiting = WaitingQueue()
        self.batch = Batch(slots)
        self.requests: dict[str, Request] = {}
        self._arrivals = 0

    def add(
        self,
        asked: AddRequest,
        now_s: float,
        forecast_output: int,
        kv_budget: KvBudget | None = None,
        narrow: bool = False,
    ) -> Request:
        self._arrivals += 1
        root = self.tables.root(asked, narrow)
        request = Request(
            asked, self._arrivals, now_s, root, forecast_output=forecast_output, kv_budget=kv_budget, narrow=narrow
        )
        self.requests[asked.id] = request
        first = Sequence(request, 0, list(asked.prompt_ids), choices=width(asked))
        request.sequences.append(first)
        self.waiting.add(first)
        return request

    def enter(self, sequence: Sequence, match: Match) -> None:
        """It runs from now on, and begins with the pages that were found for it."""
        self.waiting.remove(sequence)
        self.tables.enter(sequence, match)
        self.batch.enter(sequence)
        self.tiering.fetch(sequence)

    def preempt(self, sequence: Sequence) -> None:
        """Its pages are needed elsewhere: it waits, with its rank and its tokens; what no tier keeps is computed again."""
        swapped = self.tables.made(sequence) and self.tiering.swap(sequence, self.tables.tail(sequence))
        self._leave(sequence)
        sequence.state = State.SWAPPED if swapped else State.WAITING
        self.waiting.add(sequence)

    def fork(self, parents: list[Sequence], first_index: int = 0, replace: bool = False) -> list[Sequence]:
        """A child of each parent, in order, with its tokens: sharing its pages, or waiting where the parent waits or no slot is
        free.

        With `replace` the children take the place of all the request's sequences.
        """
        request = parents[0].request
        before = list(request.sequences) if replace else []
        children = [parent.fork(index) for index, parent in enumerate(parents, start=first_index)]
        for child, parent in zip(children, parents, strict=True):
            request.sequences.append(child)
            self.tables.fork(child, parent)
        for sequence in before:
            self.finish(sequence)
        for child in children:
            if child.computed and self.batch.has_slot:
                self.batch.enter(child)
            else:
                self.tables.leave(child)
                self.waiting.add(child)
        return children

    def spill(self, sequence: Sequence) -> bool:
        """It is longer than the pool: let its early pages lie in the overflow, if that has any. Nothing may be in flight."""
        if self._overflow is None or sequence.request.kv_budget is not None:
            return False
        moves = self.tables.spill(sequence, max(1, self.pool.total // SPILL_SHARE))
        if moves:
            self._overflow.move(moves)
            self.pool.release([source for source, _ in moves])
        return bool(moves)

    def finish(self, sequence: Sequence) -> None:
        """In whatever state it is; the request ends with its last sequence."""
        if sequence.state in (State.WAITING, State.SWAPPED):
            self.waiting.remove(sequence)
        else:
            self._leave(sequence)
        sequence.state = State.FINISHED
        request = sequence.request
        request.sequences.remove(sequence)
        if not request.sequences:
            del self.requests[request.asked.id]

    def end(self, request: Request) -> None:
        for sequence in list(request.sequences):
            self.finish(sequence)

    def planned(self, step: int) -> list[tuple[int, int]]:
        """A step is in flight from now on: the copies that it begins with."""
        self.batch.fence.planned(step)
        return self.tables.planned(step)

    def collected(self, step: int) -> None:
        """Steps up to this one are not in flight any more."""
        self.batch.fence.collected(step)
        self.tables.collected(step)

    def held(self) -> Iterator[list[int]]:
        """Pages that no sequence's table has, for steps in flight and for transfers."""
        return itertools.chain(self.tables.held(), self.tiering.held())

    def pages_used(self) -> int:
        """Pages that sequences refer to: not those that only steps in flight and transfers need yet."""
        held = collections.Counter(page for pages in self.held() for page in pages if page <= self.pool.total)
        return self.pool.used - sum(self.pool.references(page) == count for page, count in held.items())

    def slots_filled(self, pages_used: int) -> int:
        """Slots with keys and values in these pages, each page once; of a page with more slots than others, in their measure."""
        pool, page_size = self.pool, self.pool.page_size
        filled: dict[int, int] = {}
        for sequence in self.batch:
            factor = sequence.page_factor
            full, offset = divmod(sequence.computed - sequence.evicted, page_size * factor)
            for place, page in enumerate(sequence.pages[full:]):
                filled[page] = max(filled.get(page, pool.filled(page) // factor), 0 if place else offset // factor)
        return pages_used * page_size - sum(page_size - slots for slots in filled.values())

    def _leave(self, sequence: Sequence) -> None:
        if sequence.state is State.FETCHING:
            self.tiering.give_up(sequence)
        assert sequence.state is State.RUNNING
        self.batch.leave(sequence)
        self.tables.leave(sequence)
