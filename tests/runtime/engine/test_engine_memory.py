"""A pool that is just large enough, to the page; what fills it ends with `length`."""

import msgspec
import pytest

from tests.runtime.engine.tiny_engine import PAGE, SEEDED, Alone, MakeEngine, ask, finish, prompt

PAGES = 4
ROOM = PAGES * PAGE


@pytest.mark.parametrize("length", [pytest.param(n, id=f"{n} tokens") for n in (PAGE + 17, ROOM - 2)])
@pytest.mark.parametrize("caching", [pytest.param(True, id="cached"), pytest.param(False, id="not cached")])
def test_what_just_fits_is_never_preempted(new_engine: MakeEngine, alone: Alone, length: int, caching: bool) -> None:
    engine = new_engine(PAGES, prefix_caching=caching)
    request = ask("r", prompt("fits", length), SEEDED, ROOM - length)
    for _ in range(2):  # the second begins with all pages cached
        answers = finish(engine, [request])
        assert answers.of("r") == [alone(request)]
        assert (answers.steps[-1].preemptions_total, answers.reasons["r", 0]) == (0, "length")
        assert answers.steps[-2].blocks_used == PAGES


def test_two_that_fit_one_by_one_wait_for_each_other(new_engine: MakeEngine, alone: Alone) -> None:
    requests = [ask(f"r{index}", prompt(f"r{index}", 30), SEEDED, ROOM - 30) for index in range(2)]
    answers = finish(new_engine(PAGES), requests)
    assert [answers.of(one.id)[0] for one in requests] == [alone(one) for one in requests]
    assert answers.steps[-1].preemptions_total == 0
    assert {stats.running for stats in answers.steps} == {0, 1}


@pytest.mark.parametrize("n", [pytest.param(1, id="alone"), pytest.param(3, id="three choices that share the pool")])
def test_an_open_length_ends_where_the_pool_is_full(new_engine: MakeEngine, alone: Alone, n: int) -> None:
    answers = finish(new_engine(PAGES), [ask("r", prompt("open", 40), SEEDED, None, n=n)])
    assert set(answers.reasons.values()) == {"length"}
    wanted = ask("r", prompt("open", 40), SEEDED, ROOM - 40 + 1)  # the last token drawn needs no slot
    assert answers.of("r") == [alone(msgspec.structs.replace(wanted, seed=seed)) for seed in range(n)]
    assert (answers.steps[-1].preemptions_total > 0) == (n > 1)


def test_the_longest_prompt_is_answered(new_engine: MakeEngine, alone: Alone) -> None:
    answers = finish(new_engine(PAGES), [ask("r", prompt("long", ROOM - 1), SEEDED, None)])
    assert answers.of("r") == [alone(ask("r", prompt("long", ROOM - 1), SEEDED, 2))]  # the second needs no slot
    assert answers.reasons["r", 0] == "length"


def test_a_prompt_that_leaves_no_room_for_a_token_is_refused(new_engine: MakeEngine) -> None:
    engine = new_engine(PAGES)
    error = finish(engine, [ask("r", prompt("full", ROOM), SEEDED, None)]).ends["r", 0].error
    assert error is not None
    assert (error.kind, error.param) == ("never_fits", "prompt")
    assert "needs 5 blocks (64 prompt + 1 output tokens, 16 a block), pool has 4: shorten the prompt" in error.message
