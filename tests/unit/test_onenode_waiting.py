"""Waiting with a deadline, and the words for what is waited for."""

import pytest

from tests.cluster.kubectl import Object, condition, wait_for
from tests.cluster.waiting import what_it_waits_for


def ready(**fields: str) -> Object:
    return {"status": {"conditions": [{"type": "Available", "status": "True"}, {"type": "Ready", **fields}]}}


@pytest.mark.parametrize(
    ("service", "words"),
    [
        pytest.param(None, "the object to appear", id="no object"),
        pytest.param({}, "the operator's first look at it", id="no status"),
        pytest.param(ready(status="False", reason="PodsNotReady"), "PodsNotReady", id="a reason only"),
        pytest.param(
            ready(reason="PodsNotReady", message="1 pod wanted, 0 ready"), "1 pod wanted, 0 ready", id="a message"
        ),
    ],
)
def test_it_says_what_the_operator_says(service: Object | None, words: str) -> None:
    assert what_it_waits_for(service) == words


def test_a_condition_is_found_by_type() -> None:
    assert condition(ready(status="False"), "Ready")["status"] == "False"
    assert condition(ready(status="False"), "Stalled") == {}
    assert condition(None, "Ready") == {}


def test_waiting_returns_the_first_result_that_is_one() -> None:
    answers = iter([None, False, "here", "too late"])
    assert wait_for(lambda: next(answers), 5.0, "an answer", interval_s=0.0) == "here"


def test_an_empty_result_is_none_yet() -> None:
    answers: list[list[str]] = [["here"], []]
    assert wait_for(answers.pop, 5.0, "a list", interval_s=0.0) == ["here"]


def test_when_time_is_over_the_error_names_what_was_awaited() -> None:
    with pytest.raises(TimeoutError, match="waited 0 s for the moon"):
        wait_for(lambda: None, 0.0, "the moon", interval_s=0.0)
