"""`--audit`: books that are wrong end the engine, at the next step where they do not add up and within a second otherwise."""

import time
from collections.abc import Callable

import pytest

from octavo_runtime.engine.block_pool import BlockPool, PoolError
from octavo_runtime.engine.core import FULL_AUDIT_EVERY_S, Engine
from tests.runtime.engine.tiny_engine import Alone, MakeEngine, ask, finish, prompt

REQUEST = ask("r", prompt("audit", 20), max_tokens=400)


def miscount(pool: BlockPool) -> None:
    pool._used += 1


def lose(pool: BlockPool) -> None:
    pool._blank.pop()


def hold_without_a_table(pool: BlockPool) -> None:
    assert pool.take(1)


def count_a_reader_too_many(pool: BlockPool) -> None:
    pool.share([next(page for page in range(1, pool.total + 1) if pool.references(page))])


def began(engine: Engine) -> Engine:
    engine.add(REQUEST)
    for _ in range(3):
        assert engine.step() is not None
    return engine


@pytest.mark.parametrize("damage", [pytest.param(miscount, id="a count"), pytest.param(lose, id="a page in no place")])
def test_books_that_do_not_add_up_end_the_engine_at_the_next_step(
    new_engine: MakeEngine, damage: Callable[[BlockPool], None]
) -> None:
    engine = began(new_engine(audit=True))
    damage(engine.scheduler.pool)
    with pytest.raises(PoolError, match="the pages do not add up"):
        engine.step()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(hold_without_a_table, id="a page that no table has"),
        pytest.param(count_a_reader_too_many, id="a reader that is not there"),
    ],
)
def test_tables_that_do_not_agree_end_the_engine_at_the_next_whole_audit(
    new_engine: MakeEngine, damage: Callable[[BlockPool], None]
) -> None:
    engine = began(new_engine(audit=True))
    damage(engine.scheduler.pool)
    due_s = time.monotonic() + FULL_AUDIT_EVERY_S
    while time.monotonic() < due_s:
        time.sleep(0.01)
    with pytest.raises(PoolError, match="counted otherwise than the tables hold them"):
        engine.step()


@pytest.mark.parametrize("damage", [pytest.param(miscount, id="a count"), pytest.param(lose, id="a page in no place")])
def test_without_the_flag_nobody_looks(new_engine: MakeEngine, damage: Callable[[BlockPool], None]) -> None:
    engine = began(new_engine())
    damage(engine.scheduler.pool)
    assert engine.step() is not None


def test_an_audited_engine_answers_like_any_other(new_engine: MakeEngine, alone: Alone) -> None:
    request = ask("r", prompt("audit", 20))
    assert finish(new_engine(audit=True), [request]).of("r") == [alone(request)]
