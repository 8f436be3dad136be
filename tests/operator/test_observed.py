from typing import Any

import pytest

from octavo_operator.observed import DeploymentView, PodView, deployment_view, pod_view, worst_first


def pod(container: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    if container is not None:
        status["containerStatuses"] = [{"name": "runtime", "image": "octavo:1", **container}]
    return {"metadata": {"name": "chat-1"}, "status": status}


def terminated(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
}
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
            "CrashLoopBackOff: OOMKilled: it used more memory than its limit; raise spec.resources.memory",
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
        pytest.param(pod({"state": terminated(3)}), "exit code 3", id="ended, not yet restarted"),
        pytest.param(
            pod(phase="Failed", reason="Evicted", message="low on memory"), "Evicted: low on memory", id="evicted"
        ),
        pytest.param(
            {"metadata": {"name": "chat-1", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {}},
            "Terminating: finishing its requests",
            id="ending",
        ),
    ],
)
def test_says_what_a_pod_waits_for(live: dict[str, Any], reason: str) -> None:
    view = pod_view(live)
    assert (view.name, view.ready, view.reason) == ("chat-1", False, reason)


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
    assert pod_view(pod(container)).reason == "CrashLoopBackOff: exit code 2: no model"


def test_a_ready_pod_waits_for_nothing() -> None:
    live = pod({"state": {"running": {}}}, conditions=[{"type": "Ready", "status": "True"}])
    assert pod_view(live) == PodView("chat-1", ready=True, ending=False, reason="")


def test_a_ready_pod_that_ends_is_not_ready() -> None:
    live = pod({"state": {"running": {}}}, conditions=[{"type": "Ready", "status": "True"}])
    live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not pod_view(live).ready


def test_long_reasons_are_cut_to_what_the_status_holds() -> None:
    live = pod({"state": {"waiting": {"reason": "Odd", "message": "x" * 2000}}})
    assert len(pod_view(live).reason) == 400


def test_the_worst_pod_comes_first() -> None:
    ready = PodView("a", ready=True, ending=False, reason="")
    ending = PodView("b", ready=False, ending=True, reason="Terminating: …")
    loading = PodView("c", ready=False, ending=False, reason="Loading: …")
    crashing = PodView("d", ready=False, ending=False, reason="CrashLoopBackOff: exit code 1")
    assert worst_first((ready, ending, loading, crashing)) == [crashing, loading, ending, ready]


def test_reads_a_deployments_counts() -> None:
    live = {
        "metadata": {"generation": 4},
        "status": {"observedGeneration": 4, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 1},
    }
    assert deployment_view(live) == DeploymentView(settled=True, replicas=3, updated=2, ready=1)


def test_a_deployment_whose_controller_lags_is_not_settled() -> None:
    assert not deployment_view({"metadata": {"generation": 4}, "status": {"observedGeneration": 3}}).settled
    assert not deployment_view({"metadata": {"generation": 1}}).settled


def test_a_deployment_that_gets_no_pods_says_why() -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods"}
    live = {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "conditions": [condition]}}
    assert deployment_view(live).failure == "exceeded quota: pods"
