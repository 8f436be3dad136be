"""What is known of a model: from the status, from pods that inspect it, and only under the key of what was asked."""

import dataclasses
from typing import Any

import pytest

from octavo_operator.fitting.inspections import Insight, InspectionView, insight, record, view
from tests.operator.fitting.samples import inspected, inspecting_pod

FOUND = inspected(revision="abc")
DONE = InspectionView("k1", "succeeded", FOUND.to_json())
FAILED = InspectionView("k1", "failed", "exit code 1: octavo inspect: the model /models/x does not exist")
RUNS = InspectionView("k1", "waiting", "")
HELD_UP = InspectionView("k1", "waiting", "ImagePullBackOff: not found")
KEPT = {"inspection": {"key": "k1", **FOUND.to_fields()}}
KEPT_ERROR = {"inspection": {"key": "k1", "error": "it failed"}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            inspecting_pod("k1", "Succeeded", terminated={"exitCode": 0, "message": "{}\n"}),
            InspectionView("k1", "succeeded", "{}"),
            id="done",
        ),
        pytest.param(
            inspecting_pod("k1", "Running", terminated={"exitCode": 0, "message": "{}"}),
            InspectionView("k1", "succeeded", "{}"),
            id="done, and its pod about to be",
        ),
        pytest.param(
            inspecting_pod("k1", "Failed", terminated={"exitCode": 1, "message": "a\nno such model\n"}),
            InspectionView("k1", "failed", "exit code 1: no such model"),
            id="failed",
        ),
        pytest.param(
            inspecting_pod("k1", "Running", terminated={"exitCode": 1, "message": "no such model"}),
            InspectionView("k1", "failed", "exit code 1: no such model"),
            id="failed, and its pod about to be",
        ),
        pytest.param(
            inspecting_pod("k1", "Failed", terminated={"exitCode": 137, "reason": "OOMKilled"}),
            InspectionView(
                "k1",
                "failed",
                "OOMKilled (exit code 137): it used more memory than its limit; raise spec.resources.memory",
            ),
            id="out of memory",
        ),
        pytest.param(inspecting_pod("k1", "Running", running={}), RUNS, id="runs"),
        pytest.param(
            inspecting_pod(
                "k1", waiting={"reason": "ImagePullBackOff", "message": "Back-off: ErrImagePull: not found"}
            ),
            HELD_UP,
            id="no image",
        ),
        pytest.param(inspecting_pod("k1"), RUNS, id="not begun"),
    ],
)
def test_a_pod_that_inspects_in_one_value(pod: dict[str, Any], expected: InspectionView) -> None:
    assert view(pod) == expected


@pytest.mark.parametrize(
    ("status", "views", "expected"),
    [
        pytest.param({}, (), Insight("k1"), id="nothing"),
        pytest.param({}, (RUNS,), Insight("k1"), id="on its way"),
        pytest.param({}, (HELD_UP,), Insight("k1", waiting=HELD_UP.text), id="held up"),
        pytest.param({}, (RUNS, DONE), Insight("k1", FOUND), id="done"),
        pytest.param({}, (FAILED,), Insight("k1", error=FAILED.text), id="failed"),
        pytest.param({}, (FAILED, RUNS), Insight("k1", error=FAILED.text), id="failed, and tried again"),
        pytest.param({}, (FAILED, DONE), Insight("k1", FOUND), id="failed, and done at the second try"),
        pytest.param(KEPT, (), Insight("k1", FOUND), id="kept, the Job gone"),
        pytest.param(KEPT, (FAILED,), Insight("k1", FOUND), id="what is kept is known"),
        pytest.param(
            KEPT_ERROR, (RUNS,), Insight("k1", error="it failed"), id="an error stays while it is tried again"
        ),
        pytest.param(KEPT_ERROR, (DONE,), Insight("k1", FOUND), id="an error that is over"),
        pytest.param(
            {},
            (dataclasses.replace(DONE, key="k0"),),
            Insight("k1"),
            id="of another pod",
        ),
        pytest.param(
            {"inspection": {**KEPT["inspection"], "key": "k0"}},
            (RUNS,),
            Insight("k1"),
            id="kept of another",
        ),
        pytest.param(
            {"inspection": {"key": "k1", "model": {"layers": 0}}},
            (),
            Insight("k1"),
            id="kept and damaged",
        ),
        pytest.param(
            {},
            (dataclasses.replace(DONE, text=""),),
            Insight("k1", error="the inspection ended without a result"),
            id="no result",
        ),
        pytest.param(
            {},
            (dataclasses.replace(DONE, text="hello"),),
            Insight(
                "k1", error="an inspection's result is not JSON (Expecting value: line 1 column 1 (char 0)): 'hello'"
            ),
            id="another program's words",
        ),
    ],
)
def test_what_is_known(status: dict[str, Any], views: tuple[InspectionView, ...], expected: Insight) -> None:
    assert insight("k1", status, views) == expected


def test_what_is_kept_is_known_again() -> None:
    for found in (Insight("k1", FOUND), Insight("k1", error="it failed")):
        assert insight("k1", {"inspection": record(found)}, ()) == found
    assert record(Insight("k1")) == {}
