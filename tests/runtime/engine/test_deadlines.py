"""Time: deadlines refuse what still waits and cut what runs; an idle engine may wait a little to begin with more at once."""

from collections.abc import Callable

import pytest

from octavo_runtime.engine.deadlines import Deadlines
from octavo_runtime.engine.request import Request, Sequence
from octavo_runtime.messages import AddRequest, BeamSearch
from tests.runtime.engine.paper import GREEDY, Paper, alone, counts

pytestmark = pytest.mark.usefixtures("each_depth")


def test_who_still_waits_is_refused() -> None:
    paper = Paper(seqs=1)
    paper.add("first", prompt=3, output=9)
    paper.step()
    paper.now_s = 1.0
    paper.add("late", prompt=3, output=9, deadline_s=5.0, n=1)
    paper.now_s = 5.9
    paper.step()
    assert paper.finished == {}
    paper.now_s = 6.0
    paper.step()
    output = paper.finished["late"]
    assert (output.finish_reason, output.token_ids) == ("error", [])
    assert output.error is not None
    assert (output.error.kind, output.error.param) == ("deadline", "deadline_s")
    assert "5 s" in output.error.message
    paper.run()
    assert set(paper.finished) == {"late", "first"}


def test_who_runs_ends_with_what_it_has() -> None:
    paper = Paper()
    paper.add("r", prompt=3, output=9, deadline_s=5.0)
    for _ in range(4):
        paper.step()
    paper.now_s = 5.0
    paper.step()
    output = paper.finished["r"]
    assert (output.finish_reason, output.stop_reason, output.error) == ("abort", "deadline", None)
    assert paper.tokens["r"] == alone("r", 3, 4)["r"]
    assert (paper.stats.blocks_used, paper.stats.running) == (0, 0)
    assert paper.idle


def preempted(paper: Paper) -> None:
    paper.mislead()
    paper.add("other", prompt=2, output=60, priority=-1, n=7)
    paper.add("r", prompt=20, output=30, deadline_s=5.0)
    paper.step_until(lambda: "r" in paper.waiting and "r" in paper.tokens)


def in_its_prompt(paper: Paper) -> None:
    paper.add("r", prompt=40, output=9, n=3, deadline_s=5.0)
    paper.step()


def with_an_ended_choice(paper: Paper) -> None:
    paper.add("r", prompt=6, output=12, n=6, seed=3, eos_ids=[1, 2], deadline_s=5.0)
    paper.step_until(lambda: bool(paper.finished))
    paper.finished.clear()


@pytest.mark.parametrize(
    ("bring_about", "cut"),
    [
        pytest.param(preempted, lambda paper: {"r"}, id="preempted"),
        pytest.param(in_its_prompt, lambda paper: {"r", "r/1", "r/2"}, id="every choice, before any is drawn"),
        pytest.param(with_an_ended_choice, lambda paper: set(paper.running), id="the choices that go on"),
    ],
)
def test_who_had_a_place_is_cut_and_not_refused(
    bring_about: Callable[[Paper], None], cut: Callable[[Paper], set[str]]
) -> None:
    paper = Paper(pages=28)
    bring_about(paper)
    expected = cut(paper)
    paper.now_s = 5.0
    paper.step()
    told = {name: output for name, output in paper.finished.items() if name.startswith("r")}
    assert set(told) == expected
    assert {(output.finish_reason, output.stop_reason) for output in told.values()} == {("abort", "deadline")}


def test_beams_end_with_the_best_that_they_have() -> None:
    paper = Paper()
    paper.add("r", prompt=3, output=9, n=2, beam=BeamSearch(3), deadline_s=5.0)
    for _ in range(4):
        paper.step()
    paper.now_s = 5.0
    paper.step()
    want = alone("r", 3, 4, n=2, beam=BeamSearch(3))
    assert paper.tokens == want
    assert {(one.finish_reason, one.stop_reason) for one in paper.finished.values()} == {("abort", "deadline")}
    assert paper.scheduler.pool.used == 0


def test_a_deadline_after_the_end_is_nothing() -> None:
    paper = Paper()
    paper.add("r", prompt=3, output=2, deadline_s=5.0)
    paper.run()
    paper.now_s = 6.0
    paper.add("other", prompt=3, output=2)
    paper.run()
    assert {output.finish_reason for output in paper.finished.values()} == {"length"}


def test_ended_requests_are_forgotten_before_their_deadline() -> None:
    """A far deadline does not keep their prompts."""
    deadlines = Deadlines()
    alive = []
    for index in range(1000):
        request = Request(AddRequest(str(index), [1], GREEDY, 0, deadline_s=1e9 - index), index, 0.0, b"")
        request.sequences.append(Sequence(request, 0, [1]))
        deadlines.add(request)
        alive.append(request)
        if len(alive) > 10:
            alive.pop(0).sequences.clear()
    assert len(deadlines) <= 65
    assert deadlines.take_overdue(1e9) == alive[::-1]  # nearest deadline first


def test_an_idle_engine_waits_for_more_to_begin_with() -> None:
    paper = Paper(scheduler_delay_s=0.005, budget=64)
    paper.add("a", prompt=3, output=3)
    assert paper.scheduler.gathering_s() == pytest.approx(0.005)
    assert paper.step() is None
    paper.now_s = 0.004
    paper.add("b", prompt=3, output=3)
    assert paper.scheduler.gathering_s() == pytest.approx(0.001)  # counted from the first one
    assert paper.step() is None
    paper.now_s = 0.005
    assert counts(paper.step()) == [3, 3]


def test_a_busy_engine_waits_for_nobody() -> None:
    paper = Paper(scheduler_delay_s=1.0)
    paper.add("a", prompt=3, output=9)
    paper.now_s = 1.0
    paper.step()
    paper.settle()
    paper.add("b", prompt=3, output=3)
    assert paper.scheduler.gathering_s() == 0.0
    assert counts(paper.step()) == [1, 3]


def test_a_full_batch_ends_the_wait() -> None:
    paper = Paper(scheduler_delay_s=1.0, seqs=2)
    paper.add("a", prompt=3, output=3)
    assert paper.step() is None
    paper.add("b", prompt=3, output=3)
    assert counts(paper.step()) == [3, 3]


def test_without_a_delay_or_work_nobody_waits() -> None:
    paper = Paper()
    assert paper.scheduler.gathering_s() == 0.0
    paper.add("a", prompt=3, output=3)
    assert paper.scheduler.gathering_s() == 0.0


def test_a_deadline_is_kept_while_the_engine_gathers() -> None:
    paper = Paper(scheduler_delay_s=10.0)
    paper.add("r", prompt=3, output=3, deadline_s=2.0)
    assert paper.scheduler.gathering_s() == 2.0  # who waits for messages comes back in time
    paper.now_s = 2.0
    assert paper.step() is None
    assert paper.finished["r"].finish_reason == "error"
    assert paper.idle
