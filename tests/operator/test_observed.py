from typing import Any

import pytest

from octavo_operator.observed import DeploymentView, PodView, deployment_view, pod_view, worst_first


def pod(container: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A pod at 10.0.0.9 that is ready, of which `container` is the runtime's."""
    return {
        "metadata": {"name": "chat-1", "uid": "u1", "labels": {"serving.octavo.dev/serving": "true"}, **metadata},
        "spec": {"containers": [{"name": "runtime"}]},
        "status": {
            "podIP": "10.0.0.9",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "runtime", **container}],
        },
    }


RUNNING = {"state": {"running": {}}, "started": True}
DEAD = {"terminated": {"exitCode": 1}}
COST = "controller.kubernetes.io/pod-deletion-cost"


def owning_the_cost(manager: str) -> dict[str, Any]:
    return {"manager": manager, "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{COST}": {}}}}}


def test_reads_a_ready_pod() -> None:
    assert pod_view(pod(RUNNING)) == PodView(
        "chat-1", ready=True, ending=False, reason="", uid="u1", ip="10.0.0.9", running=True, started=True
    )


def test_a_ready_pod_that_ends_is_not_ready() -> None:
    view = pod_view(pod(RUNNING, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert (view.ready, view.ending) == (False, True)


def test_a_pod_without_the_label_takes_no_requests() -> None:
    assert not pod_view(pod(RUNNING, labels={})).serving


@pytest.mark.parametrize(
    ("container", "failed"),
    [
        pytest.param({"state": DEAD}, True, id="ended"),
        pytest.param({"state": {"waiting": {}}, "lastState": DEAD}, True, id="waits after it ended"),
        pytest.param({"state": {"running": {}}, "lastState": DEAD}, False, id="runs again"),
        pytest.param({"state": {"waiting": {}}}, False, id="waits for the first time"),
    ],
)
def test_a_pod_whose_runtime_ended_by_itself_has_failed(container: dict[str, Any], failed: bool) -> None:
    assert pod_view(pod(container)).failed is failed


@pytest.mark.parametrize(
    ("managers", "foreign"),
    [
        pytest.param([], False, id="nobody's"),
        pytest.param([owning_the_cost("octavo-operator")], False, id="ours"),
        pytest.param([owning_the_cost("octavo-operator"), owning_the_cost("kubectl-annotate")], True, id="another's"),
    ],
)
def test_knows_whose_the_deletion_cost_is(managers: list[dict[str, Any]], foreign: bool) -> None:
    view = pod_view(pod(RUNNING, annotations={COST: "100"}, managedFields=managers))
    assert (view.deletion_cost, view.cost_is_foreign) == ("100", foreign)


def test_the_worst_pod_comes_first() -> None:
    ready = PodView("a", ready=True, ending=False, reason="")
    ending = PodView("b", ready=False, ending=True, reason="Terminating: …")
    loading = PodView("c", ready=False, ending=False, reason="Loading: …")
    crashing = PodView("d", ready=False, ending=False, reason="CrashLoopBackOff: exit code 1")
    pressed = PodView("z", ready=True, ending=False, reason="", pressure_level=4)
    assert worst_first((ready, pressed, ending, loading, crashing)) == [crashing, loading, ending, pressed, ready]


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
