from typing import Any

import pytest

from octavo_operator.conditions import Condition
from octavo_operator.state import degradation
from octavo_operator.state.degradation import STABLE_S, Signal, judge, status_of
from octavo_operator.state.reading import Reading

SINCE = "2026-01-01T00:00:00Z"
CALM = Reading("ready")
PRESSED = Reading(
    "pressured", level=5, steps=("strict_admission", "demote", "slow_intake", "preempt_ahead", "cap_length")
)
LOADING = Reading("loading")
LOST = Reading("unknown")
FIELD = {"level": 5, "steps": list(PRESSED.steps), "since": "2025-12-31T23:00:00Z"}


def live(status: str, **fields: Any) -> dict[str, Any]:
    condition = {"type": "Degraded", "status": status, "reason": "Before", "message": "as it was"}
    return {"conditions": [condition], **fields}


@pytest.mark.parametrize(
    ("readings", "status"),
    [
        pytest.param([], None, id="nobody was asked"),
        pytest.param([CALM, PRESSED], "True", id="one is pressed"),
        pytest.param([CALM, LOST, LOADING], "False", id="one serves"),
        pytest.param([LOST, LOADING], "Unknown", id="who might serve does not answer"),
        pytest.param([LOADING], "False", id="all load"),
    ],
)
def test_what_pods_say_together(readings: list[Reading], status: str | None) -> None:
    assert status_of(readings) == status


def test_is_degraded_once_pressure_has_lasted() -> None:
    found = judge(Signal("True", STABLE_S), [CALM, PRESSED], live("False"), askable=True, since=SINCE)
    assert (found.condition.status, found.condition.reason) == ("True", "CapLength")
    assert found.condition.message.startswith(
        "1 of 2 pods are short of memory for keys and values, level 5 of 7 (cap_length)"
    )
    assert found.fields == {"degradation": {**FIELD, "since": SINCE}}


def test_goes_on_being_degraded_since_the_same_time() -> None:
    found = judge(Signal("True", 3.0), [PRESSED], live("True", degradation=FIELD), askable=True, since=SINCE)
    assert found.fields["degradation"]["since"] == FIELD["since"]


KEPT = Condition("Degraded", "True", "Before", "as it was")


@pytest.mark.parametrize(
    ("signal", "readings"),
    [
        pytest.param(Signal("False", STABLE_S - 1), [CALM], id="relief that has not lasted"),
        pytest.param(Signal(None, 99.0), [], id="a new operator that has not asked"),
        pytest.param(Signal("Unknown", 5.0), [LOST], id="silence that has not lasted"),
    ],
)
def test_stays_as_it_was_until_the_other_has_lasted(signal: Signal, readings: list[Reading]) -> None:
    found = judge(signal, readings, live("True", degradation=FIELD), askable=True, since=SINCE)
    assert (found.condition, found.fields) == (KEPT, {"degradation": FIELD})


@pytest.mark.parametrize(
    ("signal", "readings", "before", "askable", "status", "reason"),
    [
        pytest.param(
            Signal("False", 30.0), [CALM], live("True"), True, "False", "EnoughMemory", id="relief that lasted"
        ),
        pytest.param(Signal("Unknown", 30.0), [LOST], live("False"), True, "Unknown", "Unreachable", id="silence"),
        pytest.param(Signal(), [], {}, True, "False", "NoPodAnswers", id="a new service"),
        pytest.param(
            Signal("True", 5.0), [PRESSED], live("True"), False, "False", "NoPodAnswers", id="stopped at once"
        ),
        pytest.param(
            Signal("False", 1.0), [CALM], live("False"), True, "False", "EnoughMemory", id="the first answers"
        ),
    ],
)
def test_is_not_degraded(
    signal: Signal, readings: list[Reading], before: dict[str, Any], askable: bool, status: str, reason: str
) -> None:
    found = judge(signal, readings if askable else [], before, askable=askable, since=SINCE)
    assert (found.condition.status, found.condition.reason, found.fields) == (status, reason, {})


def test_each_step_of_the_ladder_says_what_it_costs() -> None:
    told = {
        judge(
            Signal("True", 99.0), [Reading("pressured", level=level)], {}, askable=True, since=SINCE
        ).condition.message
        for level in range(1, 8)
    }
    assert len(told) == 7
    assert degradation.TYPE == "Degraded"
