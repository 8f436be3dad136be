"""Who says how many pods there are, and what is applied when that changes."""

from typing import Any

import pytest

from octavo_operator import kinds
from octavo_operator.desired.children import children
from octavo_operator.installation import Installation
from octavo_operator.plan import plan
from octavo_operator.replicas import Replicas, only_number, owns_number, replicas, with_number
from tests.operator.samples import parsed

SCALED = {"minReplicas": 2, "maxReplicas": 8}
ALL = frozenset(kinds.OPTIONAL)
OURS = ("HorizontalPodAutoscaler", "ScaledObject", "PodMonitor", "PrometheusRule")
INSTALLATION = Installation(prometheus_url="http://prometheus:9090")


def workload(number: int, *, ours: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {"f:replicas": {}, "f:template": {}} if ours else {"f:template": {}}
    entry = {"manager": "octavo-operator", "operation": "Apply", "fieldsV1": {"f:spec": spec}}
    return {"metadata": {"managedFields": [entry]}, "spec": {"replicas": number}}


@pytest.mark.parametrize(
    ("spec", "live", "expected"),
    [
        pytest.param({"replicas": 3}, workload(5, ours=True), Replicas(3), id="the user's"),
        pytest.param({}, None, Replicas(1), id="one by default"),
        pytest.param({"autoscaling": SCALED}, None, Replicas(2, True), id="new: the least"),
        pytest.param({"autoscaling": SCALED}, workload(3, ours=True), Replicas(3, True), id="switched on: as many"),
        pytest.param({"autoscaling": SCALED}, workload(5, ours=False), Replicas(5, True), id="scaled"),
        pytest.param({"autoscaling": SCALED}, workload(0, ours=True), Replicas(2, True), id="resumed: the least"),
        pytest.param({"autoscaling": SCALED}, workload(0, ours=False), Replicas(0, True), id="another's zero"),
        pytest.param({"autoscaling": SCALED, "suspend": True}, workload(5, ours=False), Replicas(0), id="suspended"),
        pytest.param({"replicas": 3}, workload(5, ours=False), Replicas(3), id="switched off"),
    ],
)
def test_the_number_is_the_users_or_the_autoscalers(
    spec: dict[str, Any], live: dict[str, Any] | None, expected: Replicas
) -> None:
    assert replicas(parsed(**spec), live) == expected


def test_a_workload_whose_number_is_handed_over_is_applied_without_it() -> None:
    service = parsed(autoscaling=SCALED)
    [deployment, *_] = children(service, plan(service, workload(5, ours=True)), ALL, INSTALLATION)
    assert deployment.handover == 5
    assert "replicas" not in deployment.body["spec"]
    assert with_number(deployment.body, 5)["spec"] == {**deployment.body["spec"], "replicas": 5}
    assert only_number(deployment.body, 5) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": "demo"},
        "spec": {"replicas": 5},
    }


def test_ownership_is_read_from_the_apply_of_the_operator() -> None:
    assert owns_number(workload(1, ours=True))
    assert not owns_number(workload(1, ours=False))
    assert not owns_number({"metadata": {}, "spec": {"replicas": 1}})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, [], id="none"),
        pytest.param({"autoscaling": SCALED}, ["HorizontalPodAutoscaler"], id="hpa"),
        pytest.param({"autoscaling": {**SCALED, "provider": "keda"}}, ["ScaledObject"], id="keda"),
        pytest.param({"autoscaling": SCALED, "suspend": True}, [], id="suspended"),
        pytest.param(
            {"monitoring": {"podMonitor": True, "prometheusRule": True}},
            ["PodMonitor", "PrometheusRule"],
            id="monitors",
        ),
    ],
)
def test_autoscalers_and_monitors_are_children_after_the_workload(spec: dict[str, Any], expected: list[str]) -> None:
    service = parsed(**spec)
    found = [child.kind.kind for child in children(service, plan(service), ALL, INSTALLATION)]
    assert found[0] == "Deployment"
    assert [kind for kind in found if kind in OURS] == expected


def test_no_autoscaler_is_made_that_could_not_work() -> None:
    service = parsed(autoscaling={**SCALED, "provider": "keda"})
    assert kinds.SCALED_OBJECT not in {child.kind for child in children(service, plan(service), ALL, Installation())}
    served = ALL - {kinds.SCALED_OBJECT}
    assert kinds.SCALED_OBJECT not in {child.kind for child in children(service, plan(service), served, INSTALLATION)}
