"""The pool's books balance whatever is taken, shared and released."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from octavo_runtime.engine.block_pool import BlockPool, PoolError


def test_hands_out_every_page_but_the_sink() -> None:
    pool = BlockPool(total=4, page_size=16)
    assert sorted(pool.take(4) or []) == [1, 2, 3, 4]
    assert pool.take(1) is None
    assert (pool.free, pool.used) == (0, 4)


def test_takes_nothing_when_too_few_are_free() -> None:
    pool = BlockPool(total=3, page_size=16)
    assert pool.take(5) is None
    assert pool.free == 3


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
    pages = pool.take(1) or []
    pool.share(pages)
    pool.release(pages)
    assert pool.used == 1
    pool.release(pages)
    assert pool.used == 0


def test_a_page_released_twice_is_an_error() -> None:
    pool = BlockPool(total=2, page_size=16)
    pages = pool.take(1) or []
    pool.release(pages)
    with pytest.raises(PoolError, match="more often than taken"):
        pool.release(pages)


def test_a_free_page_cannot_be_shared() -> None:
    with pytest.raises(PoolError, match="is free"):
        BlockPool(total=2, page_size=16).share([1])


def test_the_audit_finds_a_table_that_holds_an_uncounted_page() -> None:
    pool = BlockPool(total=2, page_size=16)
    pages = pool.take(1) or []
    pool.audit([pages])
    with pytest.raises(PoolError, match="counted otherwise"):
        pool.audit([pages, pages])
    with pytest.raises(PoolError, match="counted otherwise"):
        pool.audit([])


class PoolMachine(RuleBasedStateMachine):
    """Random tables of pages: taken, forked, released."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(total=12, page_size=4)
        self.tables: list[list[int]] = []

    @rule(count=st.integers(0, 14))
    def take(self, count: int) -> None:
        free = self.pool.free
        pages = self.pool.take(count)
        assert (pages is None) == (count > free)
        if pages is not None:
            self.tables.append(pages)

    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        if self.tables:
            table = data.draw(st.sampled_from(self.tables))
            self.pool.share(table)
            self.tables.append(list(table))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.tables:
            self.pool.release(self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1))))

    @invariant()
    def books_balance(self) -> None:
        self.pool.audit(self.tables)
        held = {page for table in self.tables for page in table}
        assert self.pool.free == self.pool.total - len(held)


PoolMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestPoolMachine = PoolMachine.TestCase
