"""What the scheduler does with the tiers below the pool.

Pages that the pool reuses are put there first. A sequence that enters the batch and lacks pages which a tier has gets them from
there, if that takes less time than to compute them, by what both have taken lately: it is FETCHING, has its slot and its pages, and
computes nothing until they have arrived. What does not arrive is computed. A sequence that is preempted leaves the end of its
table, which no prompt could find, in the tiers too: it is SWAPPED, and goes on from there as any other begins.

Pages that a transfer writes belong to it until it is done, also when the sequence is gone meanwhile.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator

from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.block_store import BlockStore, Job
from octavo_runtime.engine.request import Sequence, State
from octavo_runtime.engine.speed import Speed
from octavo_runtime.messages import TierStats

LATE_S = 1.0  # a transfer is waited for so long at least, …
LATE_FACTOR = 4.0  # … and as often its predicted time; then what it should bring is computed
UNKNOWN_S = 5.0  # predicted, while nothing was measured
TRY_AGAIN_EVERY = 16  # of fetches that would not pay, one is done: tiers and the machine change
RESTING_BLOCKS = 16  # written at once while there is nothing to compute
_LOOKED_AT_FACTOR = 4  # cached pages that are looked at for one to write


@dataclasses.dataclass(frozen=True)
class _Fetch:
    """Blocks on their way into a sequence's table, from place `first` on; with each, its first `ends[i]` tokens are there."""

    first: int
    ends: list[int]
    pages: list[int]
    job: Job
    late_s: float
    of_prompt: bool  # the request has just come: what arrives counts as found


class Tiering:
    """`store` None: there are no tiers, and nothing happens."""

    def __init__(
        self, pool: BlockPool, store: BlockStore | None = None, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._pool = pool
        self._store = store
        self._clock_s = clock_s
        self._fetches: dict[Sequence, _Fetch] = {}
        self._held: list[tuple[Job, list[int]]] = []  # pages that jobs write for sequences that do not wait any more
        self._computing = Speed()  # in tokens
        self._busy_s = 0.0
        self._declined = 0
        self.hits_tokens_total = 0
        self.swapped_total = 0
        if store is not None:
            pool.demote = self._demote

    @property
    def busy(self) -> bool:
        """Whether transfers hold pages that will be free, or go on with, without a step."""
        return bool(self._fetches or self._held)

    def held(self) -> Iterator[list[int]]:
        """Pages that no table has."""
        return (pages for _, pages in self._held)

    def stats(self) -> list[TierStats]:
        return [] if self._store is None else self._store.stats()

    def computed(self, counts: list[int], busy_s_total: float) -> None:
        """A step has computed so many tokens of each sequence; of steps that mostly decode the time says little of prompts."""
        busy_s, self._busy_s = busy_s_total - self._busy_s, busy_s_total
        if sum(counts) >= 2 * len(counts) and busy_s > 0:
            self._computing.record(sum(counts), busy_s)

    def fetch(self, sequence: Sequence) -> None:
        """Begin to bring what a sequence that has just entered can have from the tiers."""
        store, size = self._store, self._size(sequence)
        ends = self._lacking(sequence)
        if store is None or not ends:
            return
        found = store.lookup(list(ends))
        count = min(found.blocks, self._pool.free)
        keys, ends_found = list(ends)[:count], list(ends.values())[:count]
        if not count or not self._pays(ends_found[-1] - sequence.computed, found.seconds):
            return
        pages = self._pool.take(count)
        assert pages is not None
        self._pool.overwrite(pages, 0)  # nobody knows what they hold until they have arrived
        first = sequence.computed // size
        self._pool.release(sequence.pages[first:])  # a page that was found in part: the tier has all of it
        sequence.pages[first:] = pages
        sequence.computed = sequence.submitted = first * size
        sequence.state = State.FETCHING
        predicted_s = UNKNOWN_S if found.seconds is None else found.seconds
        late_s = self._clock_s() + max(LATE_S, LATE_FACTOR * predicted_s)
        of_prompt = sequence.request.cached_tokens is None
        self._fetches[sequence] = _Fetch(first, ends_found, pages, store.get(keys, pages), late_s, of_prompt)

    def poll(self) -> None:
        """Take what has arrived into the books: those sequences run."""
        if self._store is None:
            return
        self._store.poll()
        for sequence, fetch in list(self._fetches.items()):
            if fetch.job.done:
                self._landed(sequence, fetch)
            elif self._clock_s() > fetch.late_s:
                self.give_up(sequence)
        for job, pages in self._held:
            if job.done:
                self._pool.release(pages)
        self._held = [(job, pages) for job, pages in self._held if not job.done]

    def give_up(self, sequence: Sequence) -> None:
        """Do not wait for what a FETCHING sequence should get: it runs, with the pages that it had before."""
        fetch = self._fetches.pop(sequence)
        fetch.job.give_up()
        self._held.append((fetch.job, fetch.pages))
        del sequence.pages[fetch.first :]
        sequence.told_pages = min(sequence.told_pages, fetch.first)
        sequence.state = State.RUNNING

    def swap(self, sequence: Sequence, tail: tuple[int, bytes] | None) -> bool:
        """Put what a sequence that is preempted has computed where it finds it again; False if a part of it cannot be kept.

        Full pages have names and go to the tiers when they are reused. `tail`: the page that it fills in part, and its key.
        """
        if self._store is None or sequence.evicted or sequence.state is State.FETCHING:
            return False
        if sequence.computed % self._size(sequence):
            if tail is None or not self._store.put([tail[1]], [tail[0]]):
                return False
            sequence.swapped = tail[1], sequence.computed
        self.swapped_total += 1
        return True

    def write_ahead(self, most: int) -> int:
        """`block_store.Demotion`."""
        return self._write(self._pool.coldest(_LOOKED_AT_FACTOR * most), most)

    def rest(self) -> None:
        """There is nothing to compute: write what would be lost with this process, the coldest first."""
        if self._store is not None and self._store.lasting:
            self._write(self._pool.coldest(self._pool.cached), RESTING_BLOCKS)

    def _size(self, sequence: Sequence) -> int:
        """Tokens of its pages."""
        return self._pool.page_size * sequence.page_factor

    def _write(self, blocks: list[tuple[int, bytes]], most: int) -> int:
        store = self._store
        if store is None:
            return 0
        unwritten = [(page, key) for page, key in blocks if not store.has(key)][:most]
        return store.put([key for _, key in unwritten], [page for page, _ in unwritten])

    def _demote(self, blocks: list[tuple[int, bytes]]) -> None:
        assert self._store is not None
        self._store.put([key for _, key in blocks], [page for page, _ in blocks])

    def _lacking(self, sequence: Sequence) -> dict[bytes, int]:
        """Keys of blocks that it could go on from, with the tokens that are there with each. Its last token is left to compute."""
        if self._store is None or sequence.request.kv_budget is not None:
            return {}
        size, most = self._size(sequence), len(sequence.tokens) - 1
        ends = {sequence.keys[place]: (place + 1) * size for place in range(sequence.computed // size, most // size)}
        swapped, sequence.swapped = sequence.swapped, None
        if swapped is not None and sequence.computed < swapped[1] <= most:
            ends[swapped[0]] = swapped[1]
        return ends

    def _pays(self, tokens: int, fetch_s: float | None) -> bool:
        """Whether to fetch is faster than to compute; also where that is not known yet, to measure it."""
        compute_s = self._computing.seconds_for(tokens)
        if fetch_s is None or compute_s is None or fetch_s < compute_s:
            return True
        self._declined += 1
        return self._declined % TRY_AGAIN_EVERY == 0

    def _landed(self, sequence: Sequence, fetch: _Fetch) -> None:
        del self._fetches[sequence]
        sequence.state = State.RUNNING
        count = fetch.job.blocks
        arrived, others = fetch.pages[:count], fetch.pages[count:]
        self._pool.overwrite(arrived, sequence.page_factor)
        self._pool.reform(others, sequence.page_factor)
        if not count:
            return
        size, before = self._size(sequence), sequence.computed
        sequence.computed = sequence.submitted = fetch.ends[count - 1]
        sequence.computed_once = max(sequence.computed_once, sequence.computed)
        for place in range(fetch.first, sequence.computed // size):
            parent = sequence.keys[place - 1] if place else sequence.request.root
            tokens = sequence.tokens[place * size : (place + 1) * size]
            self._pool.publish(sequence.pages[place], sequence.keys[place], parent, tokens)
        self.hits_tokens_total += sequence.computed - before
        if fetch.of_prompt:
            sequence.request.cached_tokens = (sequence.request.cached_tokens or 0) + sequence.computed - before
