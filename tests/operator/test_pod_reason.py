from typing import Any

import pytest

from octavo_operator import pod_reason
from tests.operator.pod_samples import beside, ended_by, limited, pod, terminated

UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
}
CONTAINERS_READY = {"type": "ContainersReady", "status": "True"}
NOT_READY = {"type": "Ready", "status": "False"}
PULL = "failed to pull: not found"


@pytest.mark.parametrize(
    ("live", "reason"),
    [
        pytest.param(pod(phase="Pending"), "Pending: the node has not begun", id="just made"),
        pytest.param(
            pod(phase="Pending", conditions=[UNSCHEDULABLE]),
            "Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
            id="no node has room",
        ),
        pytest.param(
            pod({"state": {"waiting": {"reason": "ContainerCreating"}}}),
            "ContainerCreating: the image is being pulled or a volume mounted",
            id="creating",
        ),
        pytest.param(
            pod({"state": {"waiting": {"reason": "ErrImagePull", "message": PULL}}}),
            f"ImagePullBackOff: {PULL}",
            id="pull failed",
        ),
        pytest.param(
            pod(
                {
                    "state": {
                        "waiting": {
                            "reason": "ImagePullBackOff",
                            "message": f'Back-off pulling image "x": ErrImagePull: {PULL}',
                        }
                    }
                }
            ),
            f"ImagePullBackOff: {PULL}",
            id="pull failed again says the same",
        ),
        pytest.param(
            pod(
                {
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
                    "lastState": terminated(2, message="loading\nerror: no such model\n"),
                }
            ),
            "CrashLoopBackOff: exit code 2: error: no such model",
            id="crashes with its last line",
        ),
        pytest.param(
            pod(
                {
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": terminated(137, reason="OOMKilled"),
                }
            ),
            "CrashLoopBackOff: OOMKilled (exit code 137): it used more memory than its limit; raise spec.resources.memory",
            id="out of memory",
        ),
        pytest.param(
            pod({"state": {"waiting": {"reason": "CreateContainerConfigError", "message": "no such secret"}}}),
            "CreateContainerConfigError: no such secret",
            id="any other wait",
        ),
        pytest.param(
            pod({"state": {"running": {}}, "started": False}),
            "Starting: the runtime does not answer yet",
            id="starting",
        ),
        pytest.param(
            pod({"state": {"running": {}}, "started": True, "ready": False}),
            "Loading: the model is being loaded or warmed up",
            id="loading",
        ),
        pytest.param(
            pod(
                {
                    "state": {"running": {}},
                    "started": True,
                    "ready": False,
                    "lastState": terminated(1),
                    "restartCount": 1,
                }
            ),
            "Loading: the model is being loaded or warmed up again after exit code 1",
            id="loading after a crash",
        ),
        pytest.param(
            pod(
                {
                    "state": {"waiting": {"reason": "ImagePullBackOff", "message": f"ErrImagePull: {PULL}"}},
                    "lastState": terminated(1),
                    "restartCount": 3,
                }
            ),
            f"ImagePullBackOff: {PULL}",
            id="pull failed after crashes",
        ),
        pytest.param(
            limited(pod({"state": terminated(137, reason="OOMKilled")}), "2Gi"),
            "OOMKilled (exit code 137): it used more memory than its limit of 2Gi; raise spec.resources.memory",
            id="out of memory once, with the limit",
        ),
        pytest.param(
            pod(
                {
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": terminated(1, message="fine\n\x1b[31mValueError: \x07no head\x1b[0m\n \n"),
                }
            ),
            "CrashLoopBackOff: exit code 1: ValueError: no head",
            id="a last line in colours",
        ),
        pytest.param(
            beside(pod({"state": {"running": {}}, "started": False}), "proxy"),
            "Starting: the runtime does not answer yet",
            id="a container beside the runtime is ready",
        ),
        pytest.param(
            pod({"state": {"running": {}}, "ready": True}, conditions=[CONTAINERS_READY, {**NOT_READY}]),
            "NodeLost: its node does not answer; whether the pod still serves is not known",
            id="node lost",
        ),
        pytest.param(
            pod(
                {"state": {"running": {}}, "ready": True},
                conditions=[CONTAINERS_READY, {**NOT_READY, "reason": "ReadinessGatesNotReady", "message": "gate x"}],
            ),
            "ReadinessGatesNotReady: gate x",
            id="a readiness gate",
        ),
        pytest.param(
            pod(initContainerStatuses=[{"name": "fetch", "state": {"running": {}}}]),
            "Preparing: the init container fetch runs",
            id="an init container runs",
        ),
        pytest.param(
            pod(
                initContainerStatuses=[
                    {"name": "done", "state": {"terminated": {"exitCode": 0}}},
                    {"name": "fetch", "state": {"waiting": {"reason": "PodInitializing"}}, "lastState": terminated(7)},
                ]
            ),
            "InitFailed: the init container fetch: exit code 7",
            id="an init container failed",
        ),
        pytest.param(
            pod(
                {"state": {"running": {}}},
                initContainerStatuses=[{"name": "mesh", "ready": True, "state": {"running": {}}}],
            ),
            "Starting: the runtime does not answer yet",
            id="a sidecar runs",
        ),
        pytest.param(pod({"state": terminated(3)}), "exit code 3", id="ended, not yet restarted"),
        pytest.param(
            pod(phase="Failed", reason="Evicted", message="low on memory"), "Evicted: low on memory", id="evicted"
        ),
        pytest.param(
            {"metadata": {"name": "chat-1", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {}},
            "Terminating: finishing its requests",
            id="ending",
        ),
        pytest.param(
            ended_by("DeletionByTaintManager"),
            "NodeLost: its node does not answer or has a taint that the pod does not tolerate",
            id="deleted for its node",
        ),
        pytest.param(
            ended_by("EvictionByEvictionAPI"),
            "Evicted: asked for by the eviction API, as when its node is drained; finishing its requests",
            id="drained from its node",
        ),
    ],
)
def test_says_what_a_pod_waits_for(live: dict[str, Any], reason: str) -> None:
    assert pod_reason.reason(live) == reason


def test_a_ready_pod_waits_for_nothing() -> None:
    assert pod_reason.reason(pod({"state": {"running": {}}}, conditions=[{"type": "Ready", "status": "True"}])) == ""


def test_long_reasons_are_cut_to_what_the_status_holds() -> None:
    assert len(pod_reason.reason(pod({"state": {"waiting": {"reason": "Odd", "message": "x" * 2000}}}))) == 400


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        pytest.param("OOMKilled (exit code 137): it used more", "OOMKilled", id="a word and more"),
        pytest.param("exit code 3", "exit", id="no word of its own"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_reason_begins_with_a_word_for_machines(reason: str, word: str) -> None:
    assert pod_reason.word(reason) == word
