"""Sequences longer than the pool: their early pages lie below it, they answer, and all pages return."""

from collections.abc import Iterator

import pytest

from octavo_runtime.engine.core import Engine
from octavo_runtime.messages import AddRequest
from tests.runtime.engine.tiny_engine import PAGE, Alone, MakeEngine, ask, assert_idle, finish, prompt

PAGES, BELOW = 8, 24
PAGE_BYTES = PAGE * 512


@pytest.fixture(scope="module")
def engine(new_engine: MakeEngine) -> Iterator[Engine]:
    engine = new_engine(pages=PAGES, kv_overflow_memory=BELOW * PAGE_BYTES, memory_ladder=False)
    yield engine
    engine.close()


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(ask("long prompt", prompt("long prompt", 300), max_tokens=20), id="the prompt is longer"),
        pytest.param(ask("long answer", prompt("long answer", 10), max_tokens=200), id="the answer is longer"),
        pytest.param(ask("two", prompt("two", 150), max_tokens=40, n=2), id="both of two choices are longer"),
    ],
)
def test_a_sequence_longer_than_the_pool_answers_as_with_room(engine: Engine, alone: Alone, asked: AddRequest) -> None:
    answers = finish(engine, [asked])
    assert answers.of(asked.id)[0] == alone(asked)
    assert set(answers.reasons.values()) == {"length"}
    assert_idle(engine)


def test_short_ones_beside_it_answer_too(engine: Engine, alone: Alone) -> None:
    requests = [
        ask("long", prompt("long", 200), max_tokens=30),
        *(ask(f"short {index}", prompt(f"short {index}", 20), max_tokens=30) for index in range(3)),
    ]
    answers = finish(engine, requests)
    for request in requests:
        assert answers.of(request.id) == [alone(request)]
    assert_idle(engine)


def test_alone_it_is_no_pressure_on_memory_until_others_wait(new_engine: MakeEngine) -> None:
    engine = new_engine(pages=PAGES, kv_overflow_memory=BELOW * PAGE_BYTES)
    long = ask("long", prompt("long", 300), max_tokens=20)
    shorts = [ask(f"short {index}", prompt(f"short {index}", 60), max_tokens=60) for index in range(3)]
    assert {step.pressure_level for step in finish(engine, [long]).steps} == {0}
    assert max(step.pressure_level for step in finish(engine, [long, *shorts]).steps) > 0
    engine.close()


def test_an_aborted_one_gives_back_all_its_pages(engine: Engine) -> None:
    engine.add(ask("long", prompt("gone", 300), max_tokens=100))
    for _ in range(3):
        engine.step()
    assert max(next(iter(engine.scheduler._life.batch)).pages) > PAGES
    engine.abort(["long"])
    engine.step()
    engine.scheduler.audit()
    assert_idle(engine)
    assert len(engine.scheduler.pool.spill(1000)) == BELOW


def test_what_fits_neither_is_refused(new_engine: MakeEngine) -> None:
    engine = new_engine(pages=PAGES, kv_overflow_memory=5 * PAGE_BYTES, memory_ladder=False)
    requests = [ask(name, prompt(name, length), max_tokens=8) for name, length in (("fits", 200), ("not", 208))]
    answers = finish(engine, requests)
    assert answers.reasons["fits", 0] == "length"
    error = answers.ends["not", 0].error
    assert error is not None
    assert error.message.startswith("needs 14 blocks (208 prompt + 8 output tokens, 16 a block), pool has 13")
