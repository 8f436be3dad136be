"""The pace at which a child is put back that someone else keeps changing, on a clock that the test moves."""

import itertools
from typing import Any

import pytest

from octavo_operator.contention import CALM_S, LONGEST_PAUSE_S, Contest, Contests, look_again_s, pause_s, written
from octavo_operator.service import Key

KEY = Key("demo", "chat")
BODY: dict[str, Any] = {"spec": {"replicas": 1}}
OTHER: dict[str, Any] = {"spec": {"replicas": 2}}


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def fight(last: Contest | None, now_s: float, reset_after_s: float, writes: int) -> list[float]:
    """When `writes` writes happen, from the first on, against someone who resets each one after `reset_after_s`."""
    times: list[float] = []
    for _ in range(writes):
        now_s += pause_s(last, "ours", now_s)
        last = written(last, "ours", "", now_s)
        times.append(now_s)
        now_s += reset_after_s
    return [moment - times[0] for moment in times]


def test_a_fight_slows_down_to_a_write_each_30_s() -> None:
    assert fight(None, 1000.0, 0.25, 10) == [0, 0.25, 1.25, 3.25, 7.25, 15.25, 31.25, 61.25, 91.25, 121.25]


def test_a_fight_of_weeks_is_no_faster_and_no_error() -> None:
    times = fight(None, 0.0, 0.25, 50_000)
    assert times[-1] - times[-2] == LONGEST_PAUSE_S


def test_who_resets_less_often_than_the_pause_is_answered_at_once() -> None:
    times = fight(None, 0.0, 45.0, 20)
    assert {later - earlier for earlier, later in itertools.pairwise(times)} == {45.0}


@pytest.mark.parametrize(
    ("wanted", "after_s", "expected"),
    [
        pytest.param("ours", 0.0, 16.0, id="at once"),
        pytest.param("ours", 15.0, 1.0, id="after most of the pause"),
        pytest.param("ours", 17.0, 0.0, id="after the pause"),
        pytest.param("changed spec", 0.0, 0.0, id="something else is wanted"),
    ],
)
def test_waits_what_is_left_of_the_pause(wanted: str, after_s: float, expected: float) -> None:
    assert pause_s(Contest("ours", 1000.0, repeats=5, about=""), wanted, 1000.0 + after_s) == expected


@pytest.mark.parametrize(
    ("wanted", "after_s", "repeats"),
    [
        pytest.param("ours", CALM_S - 1, 6, id="the same within a minute"),
        pytest.param("ours", CALM_S, 0, id="the same after a minute of calm"),
        pytest.param("changed spec", 1.0, 0, id="something else"),
    ],
)
def test_counts_what_is_written_again_within_a_minute(wanted: str, after_s: float, repeats: int) -> None:
    last = Contest("ours", 1000.0, repeats=5, about="")
    assert written(last, wanted, "", 1000.0 + after_s) == Contest(wanted, 1000.0 + after_s, repeats, "")


@pytest.mark.parametrize(
    ("contest", "expected"),
    [
        pytest.param(Contest("ours", 990.0, repeats=1, about=""), None, id="put back once"),
        pytest.param(Contest("ours", 990.0, repeats=5, about="", waiting=True), 6.0, id="when the next write is due"),
        pytest.param(Contest("ours", 990.0, repeats=5, about=""), 50.0, id="when it was left alone for a minute"),
        pytest.param(Contest("ours", 900.0, repeats=5, about="", waiting=True), 0.0, id="overdue"),
    ],
)
def test_looks_again_when_something_may_be_due(contest: Contest, expected: float | None) -> None:
    assert look_again_s(contest, 1000.0) == expected


def contested() -> tuple[Contests, Clock]:
    """The Deployment of `KEY` was written, put back twice, and is changed again."""
    clock = Clock()
    contests = Contests(clock)
    for repeats in range(3):
        clock.now_s += repeats
        assert contests.may_write(KEY, "Deployment", BODY, "someone meddles")
        contests.wrote(KEY, "Deployment", BODY, "someone meddles")
    assert not contests.may_write(KEY, "Deployment", BODY, "someone meddles")
    return contests, clock


def test_a_first_repair_is_neither_delayed_nor_told() -> None:
    contests = Contests(Clock())
    for _ in range(2):
        assert contests.may_write(KEY, "Deployment", BODY, "someone meddles")
        contests.wrote(KEY, "Deployment", BODY, "someone meddles")
        contests.nothing_to_write(KEY, "Deployment")
    assert (contests.complaint(KEY), contests.look_again_s(KEY)) == ("", None)


def test_says_what_is_contested_until_it_stayed_right_for_a_minute() -> None:
    contests, clock = contested()
    said = contests.complaint(KEY)
    assert said.startswith("someone meddles; ")
    clock.now_s += 2.0
    assert contests.may_write(KEY, "Deployment", BODY, "someone meddles")
    contests.wrote(KEY, "Deployment", BODY, "someone meddles")
    contests.nothing_to_write(KEY, "Deployment")
    assert contests.complaint(KEY) == said
    assert contests.look_again_s(KEY) == CALM_S
    clock.now_s += CALM_S
    contests.nothing_to_write(KEY, "Deployment")
    assert (contests.complaint(KEY), contests.look_again_s(KEY)) == ("", None)


@pytest.mark.parametrize(
    ("key", "kind", "body"),
    [
        pytest.param(KEY, "Deployment", OTHER, id="another spec"),
        pytest.param(KEY, "Service", BODY, id="another child"),
        pytest.param(Key("demo", "other"), "Deployment", BODY, id="another service"),
    ],
)
def test_a_contest_holds_up_nothing_else(key: Key, kind: str, body: dict[str, Any]) -> None:
    contests, _ = contested()
    assert contests.may_write(key, kind, body, "")


def test_a_child_that_goes_away_is_not_waited_for_in_a_circle() -> None:
    contests, clock = contested()
    clock.now_s += 10.0
    assert contests.look_again_s(KEY) == 0.0
    contests.nothing_to_write(KEY, "Deployment")
    assert contests.look_again_s(KEY) == CALM_S - 10.0


def test_the_next_look_is_for_whichever_child_is_due_first() -> None:
    contests, clock = contested()
    clock.now_s += 0.5
    for _ in range(4):
        contests.wrote(KEY, "Service", BODY, "")
    assert not contests.may_write(KEY, "Service", BODY, "")
    assert contests.look_again_s(KEY) == 1.5


def test_a_deleted_service_leaves_nothing_behind() -> None:
    contests, _ = contested()
    contests.forget(KEY)
    assert contests.may_write(KEY, "Deployment", BODY, "")
    assert (contests.complaint(KEY), contests.look_again_s(KEY)) == ("", None)
