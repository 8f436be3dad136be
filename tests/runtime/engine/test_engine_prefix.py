"""What the prefix cache saves, to the token, and what it must not."""

import time

import pytest

from octavo_runtime.messages import Stats
from tests.runtime.engine.tiny_engine import (
    PAGE,
    SEEDED,
    Alone,
    MakeEngine,
    ask,
    finish,
    make_outputs_look_short,
    prompt,
)

LENGTHS = [pytest.param(n, id=f"{n} tokens") for n in (2, PAGE, PAGE + 1, 3 * PAGE + 7)]


@pytest.mark.parametrize("length", LENGTHS)
def test_the_same_prompt_again_computes_one_token(new_engine: MakeEngine, alone: Alone, length: int) -> None:
    engine, request = new_engine(), ask("r", prompt("same", length), SEEDED)
    first, second = finish(engine, [request]), finish(engine, [request])
    assert (first.cached["r"], first.steps[0].step_prompt_tokens) == (0, length)
    assert (second.cached["r"], second.steps[0].step_prompt_tokens, second.steps[0].step_tokens) == (length - 1, 1, 1)
    assert first.of("r") == second.of("r") == [alone(request)]
    total = second.steps[-1]
    assert (total.prefix_queries_tokens_total, total.prefix_hits_tokens_total) == (2 * length, length - 1)


def test_without_the_cache_everything_is_computed_again(new_engine: MakeEngine) -> None:
    engine, request = new_engine(prefix_caching=False), ask("r", prompt("same", 40))
    finish(engine, [request])
    again = finish(engine, [request])
    assert (again.cached["r"], again.steps[0].step_prompt_tokens, again.steps[-1].blocks_cached) == (0, 40, 0)


def test_equal_prompts_that_come_together_are_computed_once(new_engine: MakeEngine, alone: Alone) -> None:
    """The second waits for the pages that the first is computing."""
    together = [ask(f"r{index}", prompt("same", 40), SEEDED, seed=index) for index in range(3)]
    answers = finish(new_engine(), together)
    assert [answers.cached[one.id] for one in together] == [0, 2 * PAGE, 2 * PAGE]
    assert [answers.of(one.id)[0] for one in together] == [alone(one) for one in together]


@pytest.mark.parametrize(
    ("first", "second", "cached"),
    [
        pytest.param(b"one", b"one", 39, id="the same tenant"),
        pytest.param(b"one", b"two", 0, id="another tenant"),
        pytest.param(b"one", b"", 0, id="no tenant after one"),
        pytest.param(b"", b"one", 0, id="a tenant after none"),
    ],
)
def test_tenants_find_their_own_prefixes_only(
    new_engine: MakeEngine, alone: Alone, first: bytes, second: bytes, cached: int
) -> None:
    engine, ids = new_engine(), prompt("tenants", 40)
    finish(engine, [ask("r", ids, tenant_salt=first)])
    answers = finish(engine, [ask("r", ids, tenant_salt=second)])
    assert answers.cached["r"] == cached
    assert answers.of("r") == [alone(ask("r", ids))]


def test_another_turn_of_a_conversation_hits_to_the_token(new_engine: MakeEngine, alone: Alone) -> None:
    """All but the last token of the answer, which nothing was computed for."""
    engine, ids = new_engine(), prompt("turn", 21)
    for turn in range(4):
        request = ask("r", ids, SEEDED, 11, seed=turn)
        answers = finish(engine, [request])
        assert answers.cached["r"] == (21 + 18 * turn - 8 if turn else 0)
        assert answers.of("r") == [alone(request)]
        ids = [*ids, *answers.of("r")[0], *prompt(f"turn {turn}", 7)]


def test_what_was_evicted_is_computed_again_and_answers_alike(new_engine: MakeEngine, alone: Alone) -> None:
    engine, request = new_engine(pages=8), ask("r", prompt("evicted", 40), SEEDED)
    finish(engine, [request])
    for index in range(3):
        finish(engine, [ask("other", prompt(f"other {index}", 60), max_tokens=10)])
    again = finish(engine, [request])
    assert (again.cached["r"], again.steps[0].step_prompt_tokens) == (0, 40)
    assert again.of("r") == [alone(request)]


def test_the_end_of_a_prefix_is_evicted_before_its_beginning(new_engine: MakeEngine, alone: Alone) -> None:
    engine, request = new_engine(pages=8), ask("r", prompt("evicted", 60), SEEDED, 4)
    finish(engine, [request])  # four pages
    finish(engine, [ask("other", prompt("other", 90), max_tokens=6)])  # six pages: four blank ones, and two of these
    again = finish(engine, [request])
    assert again.cached["r"] == 2 * PAGE
    assert again.of("r") == [alone(request)]


def without_time(stats: Stats) -> tuple[object, ...]:
    """What is told of a step but for busy seconds and the forecast, which is worked out a few times a second."""
    return (
        (stats.running, stats.waiting, stats.blocks_used, stats.blocks_cached, stats.slots_filled),
        (stats.batch_size, stats.step_tokens, stats.step_prompt_tokens, stats.step_generated_tokens),
        (stats.preemptions_total, stats.prefix_queries_tokens_total, stats.prefix_hits_tokens_total),
        (stats.page_copies_total, stats.step_forecast_ratios, stats.max_num_seqs),
    )


def test_warming_up_leaves_nothing(new_engine: MakeEngine) -> None:
    """Neither pages nor counts: a warmed engine's steps are those of one that has just been loaded."""
    cold, warm = new_engine(), new_engine()
    warm.warm_up()
    pool = warm.scheduler.pool
    assert (pool.used, pool.cached, pool.free) == (0, 0, pool.total)
    requests = [ask(f"r{index}", [index] * 40, SEEDED, n=2) for index in range(4)]  # prompts as warming up has them
    one, other = finish(cold, requests), finish(warm, requests)
    assert [without_time(stats) for stats in one.steps] == [without_time(stats) for stats in other.steps]
    assert one.tokens == other.tokens


def test_warming_up_leaves_no_busy_time(new_engine: MakeEngine) -> None:
    engine = new_engine()
    engine.warm_up()
    engine.add(ask("r", [1, 2, 3]))
    started_s = time.monotonic()
    outputs = engine.step()
    assert outputs is not None
    assert 0 < outputs.stats.busy_s_total <= time.monotonic() - started_s


def test_warming_up_leaves_no_forecast(new_engine: MakeEngine) -> None:
    """With a hundred ended outputs an engine begins to forecast; 92 and the 8 of the warm-up are not a hundred."""
    few, enough = new_engine(), new_engine()
    few.warm_up()
    finish(few, [ask(f"short {index}", [index], max_tokens=1) for index in range(92)])
    make_outputs_look_short(enough)
    request = ask("r", prompt("r", 10), max_tokens=20)
    assert finish(few, [request]).steps[-1].step_forecast_ratios == [1.0]
    assert finish(enough, [request]).steps[-1].step_forecast_ratios == [20.0]
