"""What is said of a pod whose runtime ends again and again."""

from typing import Any

import pytest

from octavo_operator import pod_reason
from tests.operator.pod_samples import pod, terminated


@pytest.mark.parametrize(
    "container",
    [
        pytest.param({"state": terminated(2, message="no model"), "restartCount": 1}, id="ended again"),
        pytest.param(
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": terminated(2, message="no model")},
            id="waits",
        ),
        pytest.param(
            {
                "state": {"running": {}},
                "started": False,
                "lastState": terminated(2, message="no model"),
                "restartCount": 2,
            },
            id="starts",
        ),
        pytest.param(
            {
                "state": {"running": {}},
                "started": True,
                "lastState": terminated(2, message="no model"),
                "restartCount": 2,
            },
            id="loads",
        ),
    ],
)
def test_says_the_same_all_through_a_loop_of_crashes(container: dict[str, Any]) -> None:
    assert pod_reason.reason(pod(container)) == "CrashLoopBackOff: exit code 2: no model"


@pytest.mark.parametrize(
    "last",
    [
        pytest.param("octavo serve: --nonsense is unknown: `octavo serve --help` lists what there is", id="unknown"),
        pytest.param("octavo: error: unrecognized arguments: --nonsense", id="unknown to an earlier runtime"),
        pytest.param(
            "octavo serve: argument --dtype: '3' is none of auto, bfloat16, float32", id="a value that cannot be"
        ),
    ],
)
def test_a_flag_that_the_runtime_does_not_take_is_told_with_the_field(last: str) -> None:
    container = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": terminated(2, message=f"{last}\n")}
    remedy = "correct spec.runtime.extraArgs, or use a spec.runtime.image that takes it"
    assert pod_reason.reason(pod(container)) == f"CrashLoopBackOff: exit code 2: {last}; {remedy}"
    others = {"name": "setup", "restartCount": 2, **container}
    assert "extraArgs" not in pod_reason.reason(pod(initContainerStatuses=[others]))
