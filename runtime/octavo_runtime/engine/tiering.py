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
from octavo_runtime.engine.swapped import Swapped, private_keys
from octavo_runtime.messages import TierStats

LATE_S = 1.0  # a transfer is waited for so long at least, …
LATE_FACTOR = 4.0  # … and as often its predicted time; then what it should bring is computed
UNKNOWN_S = 0.5  # predicted, while nothing was measured
TRY_AGAIN_EVERY = 16  # of fetches that would not pay, one is done: tiers and the machine change
RESTING_BLOCKS = 16  # written at once while there is nothing to compute
_LOOKED_AT_FACTOR = 4  # cached pages that are looked at for one to write


@dataclasses.dataclass(frozen=True)
class _Way:
    """Where blocks go: into a table from place `first` on. With each one its first `ends[i]` tokens are there; or, of a `table`
    that was swapped, what it had when all are."""

    first: int
    ends: list[int]
    table: Swapped | None = None


@dataclasses.dataclass(frozen=True)
class _Fetch:
    """Blocks on their way."""

    way: _Way
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
        swapped, sequence.swapped = sequence.swapped, None
        if self._store is None:
            return
        if swapped is not None and swapped.whole:
            self._fetch_table(sequence, self._store, swapped)
        elif sequence.request.kv_budget is None:
            self._fetch_rest(sequence, self._store, swapped)

    def _fetch_rest(self, sequence: Sequence, store: BlockStore, swapped: Swapped | None) -> None:
        """Of the pages that continue its table as many as there are."""
        size = self._size(sequence)
        ends = self._lacking(sequence, swapped)
        found = store.lookup(list(ends))
        count = min(found.blocks, self._pool.free)
        keys, ends_found = list(ends)[:count], list(ends.values())[:count]
        if count and self._pays(ends_found[-1] - sequence.computed, found.seconds):
            # A page that was found in part goes: the tier has all of it.
            self._begin(sequence, store, keys, found.seconds, _Way(sequence.computed // size, ends_found))

    def _fetch_table(self, sequence: Sequence, store: BlockStore, swapped: Swapped) -> None:
        """All pages that it had, or none: what is left of an evicted history goes together."""
        count, found = len(swapped.keys), store.lookup(swapped.keys)
        gain = swapped.computed - sequence.computed
        if found.blocks == count <= self._pool.free and gain > 0 and self._pays(gain, found.seconds):
            self._begin(sequence, store, swapped.keys, found.seconds, _Way(0, [], swapped))

    def _begin(
        self, sequence: Sequence, store: BlockStore, keys: list[bytes], predicted_s: float | None, way: _Way
    ) -> None:
        pages = self._pool.take(len(keys))
        assert pages is not None
        self._pool.overwrite(pages, 0)  # nobody knows what they hold until they have arrived
        self._pool.release(sequence.pages[way.first :])
        sequence.pages[way.first :] = pages
        sequence.computed = sequence.submitted = way.first * self._size(sequence)
        sequence.state = State.FETCHING
        patience_s = max(LATE_S, LATE_FACTOR * (UNKNOWN_S if predicted_s is None else predicted_s))
        of_prompt = sequence.request.cached_tokens is None
        self._fetches[sequence] = _Fetch(way, pages, store.get(keys, pages), self._clock_s() + patience_s, of_prompt)

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
        del sequence.pages[fetch.way.first :]
        sequence.told_pages = min(sequence.told_pages, fetch.way.first)
        sequence.state = State.RUNNING

    def swap(self, sequence: Sequence, tail: tuple[int, bytes] | None) -> bool:
        """Put what a sequence that is preempted has computed where it finds it again; False if a part of it cannot be kept.

        Full pages of a whole history have names, and go to the tiers when they are reused. `tail`: the page that it fills in part,
        and its key.
        """
        store = self._store
        if store is None or not sequence.computed or sequence.state is State.FETCHING:
            return False
        if sequence.request.kv_budget is not None:
            pages = sequence.pages[: self._pool.pages_for(sequence.computed - sequence.evicted, sequence.page_factor)]
            weights = [sequence.weights.get(page, 0.0) for page in pages]
            keys, before = private_keys(len(pages)), sequence.evicted_before
            swapped = Swapped(keys, sequence.computed, True, sequence.evicted, before, weights)
        elif tail is not None:
            pages, swapped = [tail[0]], Swapped([tail[1]], sequence.computed)
        else:
            pages, swapped = [], Swapped([], sequence.computed)
        if store.put(swapped.keys, pages) < len(pages):
            return False
        sequence.swapped = swapped
        self.swapped_total += 1
        return True

    def write_ahead(self, most: int) -> int:
        """`block_store.Demotion`."""
        return self._write(self._pool.coldest(_LOOKED_AT_FACTOR * most), most)

    def rest(self) -> None:
        """There is nothing to compute: write what would be lost with this process, the coldest first."""
        if self._store is not None and self._store.lasting_blocks:
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

    def _lacking(self, sequence: Sequence, swapped: Swapped | None) -> dict[bytes, int]:
        """Keys of blocks that it could go on from, with the tokens that are there with each. Its last token is left to compute."""
        size, most = self._size(sequence), len(sequence.tokens) - 1
        ends = {sequence.keys[place]: (place + 1) * size for place in range(sequence.computed // size, most // size)}
        if swapped is not None and sequence.computed < swapped.computed <= most:
            ends |= dict.fromkeys(swapped.keys, swapped.computed)
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
        count, before = fetch.job.blocks, sequence.computed
        if fetch.way.table is not None and count < len(fetch.pages):
            count = 0
        self._pool.overwrite(fetch.pages[:count], sequence.page_factor)
        self._pool.reform(fetch.pages[count:], sequence.page_factor)
        if not count:
            return
        if fetch.way.table is not None:
            _take_up(sequence, fetch.way.table)
        else:
            sequence.computed = sequence.submitted = fetch.way.ends[count - 1]
            self._publish(sequence, fetch.way.first)
        sequence.computed_once = max(sequence.computed_once, sequence.computed)
        self.hits_tokens_total += sequence.computed - before
        if fetch.of_prompt:
            sequence.request.cached_tokens = (sequence.request.cached_tokens or 0) + sequence.computed - before

    def _publish(self, sequence: Sequence, first: int) -> None:
        """Let the full pages of its table be found, from place `first` on."""
        size = self._size(sequence)
        for place in range(first, sequence.computed // size):
            parent = sequence.keys[place - 1] if place else sequence.request.root
            tokens = sequence.tokens[place * size : (place + 1) * size]
            self._pool.publish(sequence.pages[place], sequence.keys[place], parent, tokens)


def _take_up(sequence: Sequence, table: Swapped) -> None:
    """It goes on with the history that it had left of its own."""
    sequence.computed = sequence.submitted = table.computed
    sequence.evicted, sequence.evicted_before = table.evicted, table.evicted_before
    sequence.told_pages = 0  # the runner is told of evictions with the pages after them
    sequence.weights = dict(zip(sequence.pages, table.weights, strict=True))
