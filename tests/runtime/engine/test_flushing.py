"""What is written at the end: what the lasting tier lacks, what was used last first, within its queue and the time there is."""

from collections.abc import Sequence

import pytest

from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.block_store import Found, Job
from octavo_runtime.engine.flushing import AT_ONCE_BLOCKS, flush
from octavo_runtime.engine.prefix_index import chain_key
from octavo_runtime.messages import TierStats

ROOT = b"root"
PAGES = 50


class SlowStore:
    """Writes one block with each `poll`; no more than `room`."""

    def __init__(self, lasting_blocks: int = 1000, room: int = 1000) -> None:
        self.lasting_blocks = lasting_blocks
        self.room = room
        self.waiting: list[bytes] = []
        self.written: list[bytes] = []
        self.most_waiting = 0

    @property
    def on_their_way(self) -> int:
        return len(self.waiting)

    def has(self, key: bytes) -> bool:
        return key in self.written or key in self.waiting

    def lasts(self, key: bytes) -> bool:
        return key in self.written

    def put(self, keys: Sequence[bytes], pages: Sequence[int]) -> int:
        self.waiting += keys
        self.most_waiting = max(self.most_waiting, len(self.waiting))
        return len(keys)

    def poll(self) -> None:
        if self.waiting:
            key = self.waiting.pop(0)
            if len(self.written) < self.room:
                self.written.append(key)

    def lookup(self, keys: Sequence[bytes]) -> Found:
        return Found(0, None)

    def get(self, keys: Sequence[bytes], pages: Sequence[int]) -> Job:
        raise AssertionError("nothing is fetched at the end")

    def stats(self) -> list[TierStats]:
        return []


class Clock:
    """A second later each time that it is asked."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


def key(page: int) -> bytes:
    return chain_key(ROOT, [page, page])


def pool_with_cached_pages() -> tuple[BlockPool, list[int]]:
    """The pages in the order in which they were released."""
    pool = BlockPool(total=PAGES, page_size=2)
    pages = pool.take(PAGES)
    assert pages is not None
    for page in pages:
        pool.publish(page, key(page), ROOT, [page, page])
        pool.release([page])
    return pool, pages


def test_all_is_written_that_the_tier_lacks_and_its_queue_never_overflows() -> None:
    pool, pages = pool_with_cached_pages()
    store = SlowStore()
    store.written = [key(pages[-1]), key(pages[0])]
    assert flush(pool, store, 1000, Clock()) == (PAGES - 2, 0)
    assert store.written[2:] == [key(page) for page in reversed(pages[1:-1])], "what was used last comes first"
    assert store.most_waiting <= 2 * AT_ONCE_BLOCKS


def test_what_there_is_no_time_for_is_left_out_and_counted() -> None:
    pool, pages = pool_with_cached_pages()
    store = SlowStore()
    written, left = flush(pool, store, 10, Clock())
    assert (written + left, written) == (PAGES, len(store.written))
    assert store.written == [key(page) for page in reversed(pages)][: len(store.written)]
    assert 0 < written < 12


def test_no_more_is_written_than_the_tier_may_have_for_that_would_take_the_place_of_what_was_used_later() -> None:
    pool, pages = pool_with_cached_pages()
    store = SlowStore(lasting_blocks=5)
    store.written = [key(pages[-2])]
    assert flush(pool, store, 1000, Clock()) == (4, 0)
    assert sorted(store.written) == sorted(key(page) for page in pages[-5:])


def test_what_a_full_disk_did_not_take_is_left_out_and_counted() -> None:
    pool, _ = pool_with_cached_pages()
    assert flush(pool, SlowStore(room=7), 1000, Clock()) == (7, PAGES - 7)


@pytest.mark.parametrize(
    "cached", [pytest.param(True, id="a tier that goes, too"), pytest.param(False, id="an empty cache")]
)
def test_nothing_is_written_where_nothing_would_be_found(cached: bool) -> None:
    pool = pool_with_cached_pages()[0] if cached else BlockPool(total=PAGES, page_size=2)
    store = SlowStore(lasting_blocks=0 if cached else 1000)
    assert flush(pool, store, 1000, Clock()) == (0, 0)
    assert store.written == []
