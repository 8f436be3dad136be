"""What of the pods' answers is shown, and when."""

import pytest

from octavo_operator.service import Key
from octavo_operator.state.answer import PodState
from octavo_operator.state.readings import Readings

CHAT = Key("demo", "chat")
LOADING, READY = PodState("loading"), PodState("ready", blocks_total=8)
PRESSED = PodState("pressured", level=4, steps=("a",), blocks_total=8)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def readings(clock: Clock) -> Readings:
    return Readings(clock)


def phases(readings: Readings) -> dict[str, str]:
    return {uid: reading.phase for uid, reading in readings.of(CHAT).readings.items()}


def test_shows_the_first_answer_at_once_and_the_next_change_ten_seconds_later(clock: Clock, readings: Readings) -> None:
    readings.told(CHAT, "a", LOADING)
    assert readings.due() == [CHAT]
    clock.now_s += 9.0
    readings.told(CHAT, "a", READY)
    assert readings.due() == []
    assert phases(readings) == {"a": "loading"}, "what is shown stays, whoever looks"
    clock.now_s += 1.0
    assert readings.due() == [CHAT]
    assert phases(readings) == {"a": "ready"}


def test_what_stays_the_same_needs_no_look(clock: Clock, readings: Readings) -> None:
    readings.told(CHAT, "a", READY)
    readings.due()
    clock.now_s += 30.0
    assert readings.due() == [CHAT], "a condition that an earlier operator left may flip now"
    for load in (0.1, 0.7, 0.2):
        clock.now_s += 60.0
        readings.told(CHAT, "a", PodState("ready", blocks_total=8, load=load))
        assert readings.due() == []


def test_a_change_of_load_needs_a_look_where_it_is_followed(clock: Clock, readings: Readings) -> None:
    readings.told(CHAT, "a", READY)
    readings.due()
    readings.follow_load(CHAT, True)
    readings.told(CHAT, "a", PodState("ready", blocks_total=8, load=0.7))
    assert readings.due() == [CHAT]
    assert readings.of(CHAT).loads == {"a": 0.7}


def test_a_pod_is_out_of_reach_after_three_misses_and_back_with_one_answer(clock: Clock, readings: Readings) -> None:
    readings.told(CHAT, "a", READY)
    readings.due()
    clock.now_s += 30.0
    readings.due()
    for _ in range(2):
        clock.now_s += 10.0
        readings.told(CHAT, "a", None)
        assert readings.due() == []
    clock.now_s += 10.0
    readings.told(CHAT, "a", None)
    assert readings.due() == [CHAT]
    assert phases(readings) == {"a": "unknown"}
    clock.now_s += 10.0
    readings.told(CHAT, "a", READY)
    readings.due()
    assert phases(readings) == {"a": "ready"}


def test_asks_for_a_look_when_pressure_has_lasted(clock: Clock, readings: Readings) -> None:
    readings.told(CHAT, "a", READY)
    readings.due()
    clock.now_s += 10.0
    readings.told(CHAT, "a", PRESSED)
    assert readings.due() == [CHAT]
    clock.now_s += 29.0
    assert readings.due() == []
    clock.now_s += 1.0
    assert readings.due() == [CHAT]
    assert readings.of(CHAT).signal.age_s == 30.0
    clock.now_s += 100.0
    assert readings.due() == [], "once is enough"


def test_pressure_that_comes_and_goes_does_not_last(clock: Clock, readings: Readings) -> None:
    for state in (PRESSED, READY, PRESSED):
        readings.told(CHAT, "a", state)
        clock.now_s += 20.0
    assert readings.of(CHAT).signal.status == "True"
    assert readings.of(CHAT).signal.age_s == 20.0


def test_a_loading_pod_that_does_not_move_is_noticed(clock: Clock, readings: Readings) -> None:
    for percent in (10, 10, 11, 11):
        readings.told(CHAT, "a", PodState("loading", percent=percent))
        clock.now_s += 50.0
    readings.told(CHAT, "a", PodState("loading", percent=11))
    readings.due()
    assert readings.of(CHAT).readings["a"].stalled_s == 60


def test_forgets_pods_and_services_that_are_gone(clock: Clock, readings: Readings) -> None:
    readings.told(CHAT, "a", PRESSED)
    readings.told(CHAT, "b", READY)
    readings.due()
    readings.keep_only({CHAT: {"b"}})
    assert readings.of(CHAT).signal.status == "False"
    clock.now_s += 10.0
    readings.due()
    assert phases(readings) == {"b": "ready"}
    readings.keep_only({})
    assert phases(readings) == {}
    assert readings.of(CHAT).signal.status is None
