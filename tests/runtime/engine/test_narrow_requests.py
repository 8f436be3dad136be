"""Requests whose keys and values are kept in 8 bits beside others, in one pool: what the ladder's level 6 gives to new ones."""

from pathlib import Path

import pytest

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.tables import Tables
from octavo_runtime.messages import AddRequest
from tests.runtime.engine.paper import IDENTITY
from tests.runtime.engine.tiny_engine import PAGE, Answers, ask, assert_idle, finish, prompt, step

_TOKEN_BYTES = 2 * 2 * 2 * (16 + 2)  # layers, keys and values, KV heads, codes and their scale


def engine(model: Path, pages: int, **flags: object) -> Engine:
    """Pages are of 32 tokens, or of 64 in 8 bits."""
    memory = (pages + 1) * 64 * _TOKEN_BYTES
    return Engine(ServeConfig(str(model), dtype="bfloat16", kv_cache_memory=memory, **flags))  # type: ignore[arg-type]  # a table


def requests(name: str, count: int, alike: int = 1) -> list[AddRequest]:
    """Of two pages each, one in 8 bits; the ladder caps none. `alike` of them have one prompt."""
    return [ask(f"{name}{i}", prompt(f"{name}{i - i % alike}", 54), max_tokens=6 + i % 5) for i in range(count)]


def burst(one: Engine) -> tuple[Answers, list[AddRequest], list[AddRequest]]:
    """Four pools of work, and when that has shown, more; all answers, the early requests and the late ones."""
    early, late, answers = requests("early", 24), requests("late", 12, alike=3), Answers()
    for request in early:
        one.add(request)
    step(one, answers)
    step(one, answers)
    assert one.scheduler.ladder.level == 6
    for request in late:
        one.add(request)
    while step(one, answers):
        pass
    return answers, early, late


def told(answers: Answers, request: AddRequest) -> bool:
    return any(
        note.startswith("lossy: keys and values kept in 8 bits") for note in answers.ends[request.id, 0].degraded
    )


@pytest.fixture(scope="module")
def pressed(tiny: Path) -> tuple[Answers, list[AddRequest], list[AddRequest]]:
    one = engine(tiny, 12, allow_lossy=True, max_num_seqs=8, kv_guard_percent=100)
    result = burst(one)
    assert_idle(one)
    return result


def test_under_pressure_new_requests_are_kept_in_8_bits_and_told(
    pressed: tuple[Answers, list[AddRequest], list[AddRequest]],
) -> None:
    answers, early, late = pressed
    assert [told(answers, request) for request in late] == [True] * len(late)
    assert not any(told(answers, request) for request in early)
    assert set(answers.reasons.values()) == {"length"}


def test_some_are_compared_with_the_full_format_which_no_client_sees(
    pressed: tuple[Answers, list[AddRequest], list[AddRequest]],
) -> None:
    answers, early, late = pressed
    assert {name for name, _ in answers.ends} == {request.id for request in [*early, *late]}
    assert 4 <= answers.steps[-1].guard_compared_total <= len(late)


@pytest.mark.parametrize(
    ("late", "flags"),
    [pytest.param(False, {}, id="16 bits"), pytest.param(True, {"kv_cache_dtype": "int8"}, id="8 bits")],
)
def test_each_request_gets_the_answer_that_its_format_gives_alone(
    tiny: Path, pressed: tuple[Answers, list[AddRequest], list[AddRequest]], late: bool, flags: dict[str, object]
) -> None:
    """Pages went from one format to the other meanwhile, and a page's rest must not be taken for numbers."""
    answers, before, after = pressed
    asked = after if late else before
    by_itself = finish(engine(tiny, 100, memory_ladder=False, **flags), asked)
    assert {one.id: answers.of(one.id) for one in asked} == {one.id: by_itself.of(one.id) for one in asked}


def test_a_prefix_is_not_taken_from_another_format() -> None:
    tables = Tables(BlockPool(4, PAGE), IDENTITY)
    asked = ask("one", prompt("one", 40))
    assert tables.root(asked, narrow=True) not in (tables.root(asked), b"")


def test_a_page_is_to_be_zeroed_when_its_slots_change_their_form() -> None:
    pool = BlockPool(4, PAGE)
    pool.reform([1, 2], 1)
    assert pool.take_reformed() == []  # as new pages are
    pool.reform([1, 2, 3], 2)
    pool.overwrite([2, 4], 2)
    assert pool.take_reformed() == [1, 3]
    assert pool.take_reformed() == []
    pool.reform([4, 1], 1)
    assert pool.take_reformed() == [1, 4]


def test_without_leave_nothing_is_lossy(tiny: Path) -> None:
    one = engine(tiny, 12, max_num_seqs=8)
    answers = Answers()
    for request in requests("early", 24):
        one.add(request)
    step(one, answers)
    step(one, answers)
    assert one.scheduler.ladder.level == 5
