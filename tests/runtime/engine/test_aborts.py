"""Requests and single choices are ended in every state, and all that they held returns: with nothing in flight at once."""

from collections.abc import Callable

import pytest

from octavo_runtime.messages import BeamSearch
from tests.runtime.engine.paper import Paper, alone, reasons

pytestmark = pytest.mark.usefixtures("each_depth")


def waiting(paper: Paper) -> None:
    paper.add("other", prompt=2, output=30, n=8)
    paper.step()
    paper.add("r", prompt=5, output=5)
    paper.step()
    assert "r" in paper.waiting
    paper.scheduler.abort(["other"])


def never_planned(paper: Paper) -> None:
    paper.add("r", prompt=5, output=5, n=3)
    assert paper.waiting == ["r"]


def prefilling(paper: Paper) -> None:
    paper.add("r", prompt=40, output=5)
    paper.step()
    assert not paper.tokens


def choices_not_drawn(paper: Paper) -> None:
    paper.add("r", prompt=40, output=5, n=4)
    paper.step()
    assert paper.running == ["r"]


def decoding(paper: Paper) -> None:
    paper.add("r", prompt=5, output=9)
    for _ in range(4):
        paper.step()
    assert len(paper.tokens["r"]) == 4


def forked(paper: Paper) -> None:
    paper.add("r", prompt=6, output=9, n=3)
    for _ in range(3):
        paper.step()
    assert len(paper.running) == 3


def some_choices_ended(paper: Paper) -> None:
    paper.add("r", prompt=6, output=9, n=6, seed=3, eos_ids=[1, 2])
    paper.step_until(lambda: bool(paper.finished))
    assert paper.running


def preempted(paper: Paper) -> None:
    paper.mislead()
    paper.add("other", prompt=2, output=60, priority=-1, n=7)
    paper.add("r", prompt=20, output=30)
    paper.step_until(lambda: "r" in paper.waiting and "r" in paper.tokens)
    paper.scheduler.abort(["other"])


def beams(paper: Paper) -> None:
    paper.add("r", prompt=6, output=9, beam=BeamSearch(4), n=2)
    for _ in range(3):
        paper.step()
    assert len(paper.running) == 4


def beams_taking_turns(paper: Paper) -> None:
    paper.mislead()
    paper.add("other", prompt=50, output=14)
    paper.add("more", prompt=36, output=25)
    paper.add("r", prompt=6, output=50, beam=BeamSearch(3))
    paper.step_until(lambda: any(name.startswith("r/") for name in paper.waiting))
    paper.scheduler.abort(["other", "more"])


STATES: list[Callable[[Paper], None]] = [
    waiting,
    never_planned,
    prefilling,
    choices_not_drawn,
    decoding,
    forked,
    some_choices_ended,
    preempted,
    beams,
    beams_taking_turns,
]


@pytest.mark.parametrize("caching", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("bring_about", STATES, ids=lambda state: state.__name__)
def test_an_abort_returns_all_pages(bring_about: Callable[[Paper], None], caching: bool) -> None:
    paper = Paper(pages=28, caching=caching)
    bring_about(paper)
    ended = set(paper.finished)
    assert paper.scheduler.abort(["r"]) == ["r"]
    assert (paper.running, paper.waiting) == ([], [])
    paper.settle()
    assert not paper.scheduler.has_work
    assert (paper.scheduler.pool.used, paper.running, paper.waiting) == (0, [], [])
    paper.scheduler.audit()
    paper.step()
    assert (paper.stats.blocks_used, paper.stats.slots_filled, paper.stats.running) == (0, 0, 0)
    assert set(paper.finished) == ended  # whoever asked for the end is told nothing more
    paper.add("next", prompt=9, output=6)
    paper.run()
    assert paper.tokens["next"] == alone("next", 9, 6)["next"]


def test_an_abort_names_whom_it_ended() -> None:
    paper = Paper()
    for name in "ab":
        paper.add(name, prompt=3, output=3)
    assert paper.scheduler.abort(["b", "unknown", "b"]) == ["b"]
    assert paper.scheduler.abort(["b"]) == []
    paper.run()
    assert set(paper.finished) == {"a"}


def test_an_id_can_be_used_again_after_its_end() -> None:
    paper = Paper(context=30)
    paper.add("r", prompt=3, output=20, deadline_s=5.0)
    paper.step()
    paper.scheduler.abort(["r"])
    paper.tokens.clear()
    paper.now_s = 3.0
    paper.add("r", prompt=3, output=4, deadline_s=5.0)
    assert paper.scheduler.knows("r")
    paper.now_s = 6.0  # the deadline of the first one
    paper.run()
    assert paper.tokens == alone("r", 3, 4)
    assert reasons(paper) == {"r": "length"}


def test_a_single_choice_is_ended_and_the_others_go_on() -> None:
    paper = Paper()
    paper.add("r", prompt=6, output=9, n=3)
    for _ in range(2):
        paper.step()
    assert paper.scheduler.abort_sequences([("r", 1), ("r", 7), ("unknown", 0)])
    assert paper.running == ["r", "r/2"]
    paper.run()
    want = alone("r", 6, 9, n=3)
    assert set(paper.finished) == {"r", "r/2"}
    assert {name: paper.tokens[name] for name in paper.finished} == {name: want[name] for name in ("r", "r/2")}
    assert paper.stats.blocks_used == 0


def test_a_choice_that_waits_is_ended_too() -> None:
    paper = Paper(pages=9)
    paper.mislead()
    paper.add("r", prompt=4, output=20, n=4)
    paper.step_until(lambda: "r/3" in paper.waiting)
    assert paper.scheduler.abort_sequences([("r", 3)])
    assert "r/3" not in paper.waiting
    paper.run()
    assert set(paper.finished) == {"r", "r/1", "r/2"}


def test_a_request_is_over_with_its_last_choice() -> None:
    paper = Paper()
    paper.add("r", prompt=6, output=9, n=2)
    paper.step()
    assert paper.scheduler.abort_sequences([("r", 0), ("r", 1)])
    paper.settle()
    assert not paper.scheduler.has_work
    assert paper.scheduler.pool.used == 0


def test_choices_that_are_not_drawn_yet_are_not_known() -> None:
    paper = Paper()
    paper.add("r", prompt=40, output=3, n=2)
    paper.step()
    assert not paper.scheduler.abort_sequences([("r", 0), ("r", 1)])
    paper.run()
    assert paper.tokens == alone("r", 40, 3, n=2)


def test_beams_are_not_ended_one_by_one() -> None:
    paper = Paper()
    paper.add("r", prompt=6, output=5, beam=BeamSearch(3), n=2)
    for _ in range(2):
        paper.step()
    assert not paper.scheduler.abort_sequences([("r", 0), ("r", 1), ("r", 2)])
    paper.run()
    assert paper.tokens == alone("r", 6, 5, beam=BeamSearch(3), n=2)
