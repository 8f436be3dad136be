"""Pages are taken, shared, released and found again as the books say, and the audit sees each kind of wrong book."""

from collections.abc import Callable

import pytest

from octavo_runtime.engine.block_pool import BlockPool, PoolError
from octavo_runtime.engine.prefix_index import chain_key

ROOT = b"root"


def taken(pool: BlockPool, count: int) -> list[int]:
    pages = pool.take(count)
    assert pages is not None
    return pages


def named(pool: BlockPool, count: int) -> list[int]:
    """Referenced pages, each found by a content of its own: [page, page] after the root."""
    pages = taken(pool, count)
    for page in pages:
        pool.publish(page, chain_key(ROOT, [page, page]), ROOT, [page, page])
    return pages


def found(pool: BlockPool, page: int) -> bool:
    return pool.match(ROOT, [chain_key(ROOT, [page, page])], [page, page], 2).pages == [page]


def test_hands_out_every_page_but_the_sink() -> None:
    pool = BlockPool(total=4, page_size=16)
    assert sorted(taken(pool, 4)) == [1, 2, 3, 4]
    assert pool.take(1) is None
    assert (pool.free, pool.used) == (0, 4)


def test_takes_nothing_when_too_few_are_free() -> None:
    pool = BlockPool(total=3, page_size=16)
    assert pool.take(5) is None
    assert (pool.free, pool.used) == (3, 0)


@pytest.mark.parametrize(
    ("tokens", "pages"),
    [
        pytest.param(0, 0, id="none"),
        pytest.param(1, 1, id="one"),
        pytest.param(16, 1, id="full"),
        pytest.param(17, 2, id="over"),
    ],
)
def test_counts_the_pages_of_tokens(tokens: int, pages: int) -> None:
    assert BlockPool(total=4, page_size=16).pages_for(tokens) == pages


def test_a_shared_page_is_free_after_its_last_release() -> None:
    pool = BlockPool(total=2, page_size=16)
    pages = taken(pool, 1)
    pool.share(pages)
    assert pool.references(pages[0]) == 2
    pool.release(pages)
    assert (pool.used, pool.free) == (1, 1)
    pool.release(pages)
    assert (pool.used, pool.free) == (0, 2)


def test_blank_pages_go_first_then_the_longest_unused_cached_ones() -> None:
    pool = BlockPool(total=4, page_size=2)
    early, late = named(pool, 2)
    blank, _ = taken(pool, 2)
    for page in (early, blank, late):
        pool.release([page])
    assert (pool.cached, pool.free, pool.used) == (2, 3, 1)
    assert [taken(pool, 1) for _ in range(3)] == [[blank], [early], [late]]


def test_the_end_of_a_table_is_reused_before_its_beginning() -> None:
    pool = BlockPool(total=3, page_size=2)
    table = named(pool, 3)
    pool.release(table)
    assert taken(pool, 3) == table[::-1]


def test_a_released_page_is_found_until_it_is_reused() -> None:
    pool = BlockPool(total=2, page_size=2)
    first, second = named(pool, 2)
    pool.release([first, second])
    assert found(pool, first)
    assert found(pool, second)
    assert taken(pool, 1) == [second]
    assert found(pool, first)
    assert not found(pool, second)


def test_a_page_that_is_shared_again_is_not_reused() -> None:
    pool = BlockPool(total=2, page_size=2)
    first, second = named(pool, 2)
    pool.release([first])
    pool.release([second])
    pool.share([first])
    assert (pool.used, pool.cached) == (1, 1)
    assert taken(pool, 1) == [second]
    assert pool.take(1) is None
    assert found(pool, first)


def test_use_makes_a_cached_page_young_again() -> None:
    pool = BlockPool(total=2, page_size=2)
    first, second = named(pool, 2)
    pool.release([first])
    pool.release([second])
    pool.share([first])
    pool.release([first])
    assert taken(pool, 2) == [second, first]


def test_a_page_that_lost_its_name_is_blank_at_its_release() -> None:
    pool = BlockPool(total=2, page_size=2)
    (page,) = named(pool, 1)
    pool.unname(page)
    assert not found(pool, page)
    pool.release([page])
    assert (pool.cached, pool.free) == (0, 2)


@pytest.mark.parametrize(
    ("references", "filled", "offset", "writable"),
    [
        pytest.param(1, 0, 0, True, id="own"),
        pytest.param(2, 0, 0, False, id="shared"),
        pytest.param(1, 3, 3, True, id="after its named content"),
        pytest.param(1, 3, 2, False, id="inside its named content"),
        pytest.param(2, 3, 3, False, id="shared, after its named content"),
    ],
)
def test_says_which_slots_may_be_written(references: int, filled: int, offset: int, writable: bool) -> None:
    pool = BlockPool(total=1, page_size=4)
    pages = taken(pool, 1)
    for _ in range(references - 1):
        pool.share(pages)
    if filled:
        pool.publish(pages[0], chain_key(ROOT, [1] * filled), ROOT, [1] * filled)
    assert pool.filled(pages[0]) == filled
    assert pool.writable(pages[0], offset) == writable


def test_a_page_released_twice_is_an_error() -> None:
    pool = BlockPool(total=2, page_size=16)
    pages = taken(pool, 1)
    pool.release(pages)
    with pytest.raises(PoolError, match="more often than taken"):
        pool.release(pages)


def test_a_blank_page_cannot_be_shared() -> None:
    with pytest.raises(PoolError, match="is blank"):
        BlockPool(total=2, page_size=16).share([1])


def test_a_cached_page_cannot_be_released() -> None:
    pool = BlockPool(total=2, page_size=2)
    pages = named(pool, 1)
    pool.release(pages)
    with pytest.raises(PoolError, match="more often than taken"):
        pool.release(pages)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        pytest.param(lambda pool, tables: tables.pop(), "counted otherwise", id="a table is missing"),
        pytest.param(lambda pool, tables: tables.append(tables[0]), "counted otherwise", id="a table too many"),
        pytest.param(lambda pool, tables: tables[0].append(4), "counted otherwise", id="a table holds a cached page"),
        pytest.param(lambda pool, tables: pool._blank.pop(), "lost or twice there", id="a page is lost"),
        pytest.param(lambda pool, tables: pool._blank.append(1), "lost or twice there", id="a page in use is blank"),
        pytest.param(lambda pool, tables: pool._blank.append(4), "lost or twice there", id="a cached page is blank"),
        pytest.param(lambda pool, tables: pool._blank.append(0), "lost or twice there", id="the sink is blank"),
        pytest.param(lambda pool, tables: pool.unname(4), "without a content", id="a cached page has no content"),
    ],
)
def test_the_audit_finds_wrong_books(spoil: Callable[[BlockPool, list[list[int]]], object], text: str) -> None:
    """Pages 1, 2, 3 are in tables, 4 is cached, 5 and 6 are blank."""
    pool = BlockPool(total=6, page_size=2)
    tables = [taken(pool, 2), taken(pool, 1)]
    pool.release(named(pool, 1))
    pool.audit(tables)
    pool.check_balance()
    spoil(pool, tables)
    with pytest.raises(PoolError, match=text):
        pool.audit(tables)


def test_the_cheap_audit_finds_pages_that_do_not_add_up() -> None:
    pool = BlockPool(total=6, page_size=2)
    pool.release(named(pool, 1))
    taken(pool, 2)
    pool.check_balance()
    pool._blank.pop()
    with pytest.raises(PoolError, match=r"2 blank \+ 1 cached \+ 2 referenced pages, the pool has 6"):
        pool.check_balance()
