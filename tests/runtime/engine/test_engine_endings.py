"""Requests ended from outside: aborts in every state, single choices, deadlines. Nothing stays, and the next one is right."""

import time

import msgspec
import pytest

from octavo_runtime.messages import AddRequest, BeamSearch
from tests.runtime.engine.tiny_engine import SEEDED, Alone, Answers, MakeEngine, ask, assert_idle, finish, prompt, step

ENDED = ask("ended", prompt("ended", 40), SEEDED, 24, seed=5)
NEXT = ask("next", [*ENDED.prompt_ids[:35], *prompt("next", 9)], SEEDED, 8, seed=9)  # goes on from what that one left
OTHER = ask("other", prompt("other", 20), SEEDED, 16, seed=11)
KINDS = [
    pytest.param({}, id="one sequence"),
    pytest.param({"n": 3}, id="three choices"),
    pytest.param({"n": 2, "beam": BeamSearch(3)}, id="beams"),
]
NARROW: dict[str, object] = {"max_num_seqs": 3, "max_num_batched_tokens": 16}


def changed(request: AddRequest, **fields: object) -> AddRequest:
    return msgspec.structs.replace(request, **fields)


@pytest.mark.parametrize("fields", KINDS)
@pytest.mark.parametrize(
    "after_steps",
    [
        pytest.param(0, id="waiting"),
        pytest.param(1, id="prompt begun"),
        pytest.param(3, id="first tokens drawn"),
        pytest.param(4, id="just forked"),
        pytest.param(12, id="decoding"),
    ],
)
def test_an_abort_in_any_state_gives_all_pages_back(
    new_engine: MakeEngine, alone: Alone, fields: dict[str, object], after_steps: int
) -> None:
    engine, answers = new_engine(**NARROW), Answers()
    engine.add(changed(ENDED, **fields))
    for _ in range(after_steps):
        assert step(engine, answers)
    engine.abort(["ended"])
    assert_idle(engine)
    assert ("ended", 0) not in answers.ends
    assert finish(engine, [NEXT]).of("next") == [alone(NEXT)]


@pytest.mark.parametrize("fields", KINDS)
@pytest.mark.parametrize("after_steps", [pytest.param(n, id=f"after {n} steps") for n in (0, 1, 6)])
def test_an_abort_leaves_others_alone(
    new_engine: MakeEngine, alone: Alone, fields: dict[str, object], after_steps: int
) -> None:
    """The other one has the first place, so that the aborted one also waits in some of these."""
    engine, answers = new_engine(**NARROW), Answers()
    engine.add(changed(OTHER, n=2) if after_steps else OTHER)
    engine.add(changed(ENDED, **fields))
    for _ in range(after_steps):
        assert step(engine, answers)
    engine.abort(["ended", "unknown"])
    rest = finish(engine, [NEXT])
    assert answers.tokens.get(("other", 0), []) + rest.of("other")[0] == alone(OTHER)
    assert rest.of("next") == [alone(NEXT)]
    assert not rest.of("ended")


@pytest.mark.parametrize("pages", [pytest.param(256, id="running"), pytest.param(7, id="some preempted")])
def test_a_single_choice_can_be_ended(new_engine: MakeEngine, alone: Alone, pages: int) -> None:
    engine, answers = new_engine(pages), Answers()
    engine.add(changed(ENDED, n=3))
    for _ in range(20):
        step(engine, answers)
    engine.abort([], [("ended", 1), ("ended", 7), ("unknown", 0)])
    rest = finish(engine, [])
    assert set(rest.reasons) == {("ended", 0), ("ended", 2)}
    for index in (0, 2):
        whole = answers.tokens["ended", index] + rest.tokens.get(("ended", index), [])
        assert whole == alone(changed(ENDED, seed=ENDED.seed + index))


def test_a_request_all_of_whose_choices_were_ended_is_over(new_engine: MakeEngine) -> None:
    engine, answers = new_engine(), Answers()
    engine.add(changed(ENDED, n=2))
    step(engine, answers)
    engine.abort([], [("ended", 0), ("ended", 1)])
    assert not engine.scheduler.has_work
    assert_idle(engine)


def test_a_deadline_refuses_what_waits(new_engine: MakeEngine, alone: Alone) -> None:
    engine, answers = new_engine(max_num_seqs=1), Answers()
    engine.add(OTHER)
    step(engine, answers)
    rest = finish(engine, [changed(ENDED, deadline_s=1e-6)])
    end = rest.ends["ended", 0]
    assert end.finish_reason == "error"
    assert end.error is not None
    assert (end.error.kind, end.error.param) == ("deadline", "deadline_s")
    assert answers.of("other")[0] + rest.of("other")[0] == alone(OTHER)


@pytest.mark.parametrize("fields", KINDS)
def test_a_deadline_cuts_what_runs(new_engine: MakeEngine, alone: Alone, fields: dict[str, object]) -> None:
    engine, answers, deadline_s = new_engine(), Answers(), 0.7
    request = changed(ENDED, max_tokens=None, deadline_s=deadline_s, **fields)
    engine.add(request)
    late_s = time.monotonic() + deadline_s
    for _ in range(5):
        assert step(engine, answers)
    while time.monotonic() < late_s:
        time.sleep(0.01)
    answers_at_end = finish(engine, [])
    ends = answers_at_end.ends
    assert set(ends) == {("ended", index) for index in range(request.n)}
    assert {(end.finish_reason, end.stop_reason) for end in ends.values()} == {("abort", "deadline")}
    if request.beam is None:
        for index in range(request.n):
            assert answers.tokens["ended", index] == alone(changed(ENDED, seed=ENDED.seed + index))[:5]
    else:
        assert [len(end.token_ids) for end in ends.values()] == [5, 5]
    assert finish(engine, [NEXT]).of("next") == [alone(NEXT)]
