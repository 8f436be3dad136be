"""One inspection answers for all services of a model, for a while, and only where it would find the same."""

from typing import Any

import pytest

from octavo_operator.fitting.findings import ASKS_S, FRESH_S, Findings, Question, scope_of
from octavo_operator.service import Key
from tests.operator.fitting.samples import inspected

FIRST, SECOND = Key("demo", "first"), Key("demo", "second")
QUESTION = Question({}, "k1", "")


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def looked_at() -> list[Key]:
    return []


@pytest.fixture
def findings(clock: Clock, looked_at: list[Key]) -> Findings:
    return Findings(clock, looked_at.append)


def test_an_answer_is_everybodys_for_ten_minutes(findings: Findings, clock: Clock) -> None:
    assert findings.answer(QUESTION) is None
    findings.learn(QUESTION, inspected())
    assert findings.answer(QUESTION) == inspected()
    clock.now_s += FRESH_S
    assert findings.answer(QUESTION) is None


def test_hearing_an_answer_again_does_not_renew_it(findings: Findings, clock: Clock) -> None:
    findings.learn(QUESTION, inspected())
    clock.now_s += FRESH_S - 1
    findings.learn(QUESTION, inspected())
    clock.now_s += 1
    assert findings.answer(QUESTION) is None


def test_one_service_asks(findings: Findings) -> None:
    assert findings.asks(QUESTION, FIRST)
    assert not findings.asks(QUESTION, SECOND)
    assert findings.asks(QUESTION, FIRST), "and still does at its next look"
    assert findings.asks(Question({}, "k2", ""), SECOND), "another question"
    assert findings.asks(Question({}, "k1", "demo"), SECOND), "another scope"


def test_a_question_that_nobody_answers_goes_on_to_the_next(findings: Findings, clock: Clock) -> None:
    findings.asks(QUESTION, FIRST)
    clock.now_s += ASKS_S - 1
    assert findings.asks(QUESTION, FIRST)
    assert not findings.asks(QUESTION, SECOND)
    clock.now_s += 1
    assert findings.asks(QUESTION, SECOND)


def test_after_a_failure_everybody_asks(findings: Findings) -> None:
    findings.asks(QUESTION, FIRST)
    findings.failed(QUESTION)
    assert findings.asks(QUESTION, SECOND)
    assert findings.asks(QUESTION, FIRST)
    assert findings.answer(QUESTION) is None


def pod(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "inspect", **fields.pop("container", {})}], **fields}


@pytest.mark.parametrize(
    ("spec", "scope"),
    [
        pytest.param(pod(), "", id="of the image alone"),
        pytest.param(pod(volumes=[{"name": "tmp", "emptyDir": {}}]), "", id="a folder of its own"),
        pytest.param(pod(volumes=[{"name": "m", "image": {"reference": "x:1"}}]), "", id="an image"),
        pytest.param(pod(volumes=[{"name": "m", "persistentVolumeClaim": {}}]), "demo", id="a claim"),
        pytest.param(pod(volumes=[{"name": "t", "secret": {}}]), "demo", id="a token"),
        pytest.param(pod(volumes=[{"name": "c", "hostPath": {}}]), "demo", id="a folder of a node"),
        pytest.param(pod(imagePullSecrets=[{"name": "s"}]), "demo", id="a registry's password"),
        pytest.param(pod(container={"env": [{"name": "HOME", "value": "/tmp"}]}), "", id="a variable"),
        pytest.param(pod(container={"env": [{"name": "T", "valueFrom": {}}]}), "demo", id="a variable of a secret"),
        pytest.param(pod(container={"envFrom": [{}]}), "demo", id="all variables of one"),
    ],
)
def test_what_may_be_shared_between_namespaces(spec: dict[str, Any], scope: str) -> None:
    assert scope_of(spec, "demo") == scope


@pytest.mark.parametrize("ends_well", [True, False], ids=["answered", "failed"])
def test_who_waits_for_another_is_looked_at_when_that_ends(
    findings: Findings, looked_at: list[Key], ends_well: bool
) -> None:
    findings.asks(QUESTION, FIRST)
    findings.asks(QUESTION, SECOND)
    findings.asks(QUESTION, SECOND)
    assert looked_at == []
    findings.learn(QUESTION, inspected()) if ends_well else findings.failed(QUESTION)
    assert looked_at == [SECOND]
    findings.learn(QUESTION, inspected())
    assert looked_at == [SECOND], "told once"


def test_who_waits_for_one_that_is_deleted_is_looked_at_and_asks(findings: Findings, looked_at: list[Key]) -> None:
    third = Key("demo", "third")
    for key in (FIRST, SECOND, third):
        findings.asks(QUESTION, key)
    findings.forget(third)
    assert looked_at == []
    findings.forget(FIRST)
    assert looked_at == [SECOND]
    assert findings.asks(QUESTION, SECOND)
