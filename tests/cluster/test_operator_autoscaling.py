"""Services that are scaled by what their pods say: real load on real pods, Prometheus, prometheus-adapter and KEDA as they are, the
cluster's own HorizontalPodAutoscaler controller.

The tests of this module share one service and go on where the one before ended.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster import hosted, metrics_apis, prometheus
from tests.cluster.installation import CHART
from tests.cluster.kubectl import Kubectl, condition, run_command, wait_for
from tests.cluster.load import busy
from tests.operator.live import KIND, Object, applied, service, shared_namespace, wait_for_condition

pytestmark = pytest.mark.usefixtures("own_cluster")

DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
READY_S = 240.0
NAME = "scaled"
UP_S, DOWN_S = 90.0, 60.0
# Two requests of this length use most of the pool of KV blocks.
LONG = 320
# What a quiet service uses is far from it, what the load uses far beyond it.
AUTOSCALING: dict[str, Any] = {
    "minReplicas": 1,
    "maxReplicas": 2,
    "metrics": [{"type": "BlockUtilization", "targetPercent": 25}],
    "behavior": {"scaleDown": {"stabilizationWindowSeconds": 15}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("autoscaling")


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


@pytest.fixture(scope="module")
def scaled(octavo: Kubectl, namespace: Kubectl, folder: Path) -> Iterator[Kubectl]:
    """A namespace with the service, which has one pod, and Prometheus, which scrapes it; KEDA's kinds and monitors are known."""
    body = service(
        NAME,
        runtime={"kvCache": {"memory": "24Mi"}, "maxModelLen": 512},
        autoscaling=AUTOSCALING,
        monitoring={"podMonitor": True, "prometheusRule": True},
    )
    metrics_apis.define(namespace)
    with prometheus.running(namespace, folder), applied(namespace, body):
        wait_for_condition(namespace, NAME, "Ready", "True", timeout_s=READY_S)
        yield namespace


@pytest.fixture(scope="module")
def adapted(scaled: Kubectl, folder: Path) -> Iterator[Kubectl]:
    with metrics_apis.custom_metrics(scaled, folder):
        yield scaled


@pytest.fixture(scope="module")
def with_keda(scaled: Kubectl, folder: Path) -> Iterator[Kubectl]:
    with metrics_apis.keda(scaled, scaled.namespace or "", folder):
        yield scaled
        # While KEDA is there to take its finalizer from the ScaledObject, which the operator makes again as long as it is wanted.
        scaled.delete(KIND, NAME)


def pods(kubectl: Kubectl) -> list[Object]:
    """The service's pods that are not ending."""
    found = kubectl.list("pods", f"serving.octavo.dev/service={NAME}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def address(kubectl: Kubectl) -> str:
    """Where this machine reaches the service: a new connection goes to any of its pods."""
    found = kubectl.get("service", NAME)
    assert found is not None
    return f"http://{found['spec']['clusterIP']}"


def answered(pod: Object) -> float:
    """Requests that the pod has answered to their full length."""
    text = hosted.read(f"http://{pod['status']['podIP']}:8001/metrics")
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return sum(
        sample.value
        for sample in samples
        if sample.name == "vllm:request_success_total" and sample.labels["finished_reason"] == "length"
    )


def has_one_pod_left(kubectl: Kubectl) -> bool:
    """Of those that end, too."""
    return len(kubectl.list("pods", f"serving.octavo.dev/service={NAME}")) == 1


def owners_of_replicas(kubectl: Kubectl) -> set[str]:
    deployment = kubectl.run("get", "deployment", NAME, "--output=json", "--show-managed-fields")
    fields = json.loads(deployment)["metadata"]["managedFields"]
    return {entry["manager"] for entry in fields if "f:replicas" in entry["fieldsV1"].get("f:spec", {})}


def scale_up_and_down(kubectl: Kubectl) -> None:
    """Load makes a second pod, which answers; less load takes one away, and no answer is cut off."""
    url = address(kubectl)
    with busy(url, NAME, clients=6, limit_tokens=LONG) as load:
        wait_for(lambda: len(pods(kubectl)) == 2, UP_S, "the autoscaler to ask for a second pod")
        wait_for_condition(kubectl, NAME, "Ready", "True", says="all 2 pods", timeout_s=UP_S)
        wait_for(lambda: all(answered(pod) for pod in pods(kubectl)), UP_S, "both pods to have answered")
    assert load.ended
    assert not load.broken
    with busy(url, NAME, clients=1, limit_tokens=64) as rest:
        wait_for(lambda: len(pods(kubectl)) == 1, DOWN_S, "the autoscaler to take a pod away")
        wait_for(lambda: has_one_pod_left(kubectl), DOWN_S, "the pod to be gone")
    assert rest.ended
    assert not rest.broken


def test_says_that_nobody_serves_the_metrics(scaled: Kubectl) -> None:
    found = wait_for_condition(
        scaled, NAME, "AutoscalingSignalReady", "False", says="MetricsApiNotServed", timeout_s=60.0
    )
    assert "install prometheus-adapter" in condition(found, "AutoscalingSignalReady")["message"]


def test_the_operator_gives_up_the_number_of_pods(scaled: Kubectl) -> None:
    assert "octavo-operator" not in owners_of_replicas(scaled)
    hpa = scaled.get("hpa", f"{NAME}-autoscaler")
    assert hpa is not None
    assert hpa["spec"]["behavior"]["scaleUp"]["tolerance"] == "20m"


def test_load_makes_pods_by_the_custom_metrics_api_and_rest_takes_them_away(adapted: Kubectl) -> None:
    wait_for_condition(adapted, NAME, "AutoscalingSignalReady", "True", says="SignalArrives", timeout_s=60.0)
    scale_up_and_down(adapted)
    assert owners_of_replicas(adapted) == {"kube-controller-manager"}


def test_suspending_takes_the_number_back_and_resuming_gives_it_up_again(scaled: Kubectl) -> None:
    scaled.patch(KIND, NAME, {"spec": {"suspend": True}})
    wait_for_condition(scaled, NAME, "Ready", "True", says="Suspended", timeout_s=60.0)
    assert scaled.get("hpa", f"{NAME}-autoscaler") is None
    assert owners_of_replicas(scaled) == {"octavo-operator"}
    scaled.patch(KIND, NAME, {"spec": {"suspend": False}})
    wait_for_condition(scaled, NAME, "Ready", "True", says="AllReady", timeout_s=READY_S)
    assert "octavo-operator" not in owners_of_replicas(scaled)


def test_load_makes_pods_by_keda_and_rest_takes_them_away(with_keda: Kubectl) -> None:
    with_keda.patch(KIND, NAME, {"spec": {"autoscaling": {"provider": "keda"}}})
    wait_for_condition(with_keda, NAME, "AutoscalingSignalReady", "True", says="SignalArrives", timeout_s=100.0)
    assert with_keda.get("hpa", f"{NAME}-autoscaler") is None
    scale_up_and_down(with_keda)


def test_switched_off_the_number_is_the_users_again(with_keda: Kubectl) -> None:
    with_keda.run("patch", KIND, NAME, "--type=json", '--patch=[{"op": "remove", "path": "/spec/autoscaling"}]')
    with_keda.patch(KIND, NAME, {"spec": {"replicas": 1}})
    wait_for(lambda: "octavo-operator" in owners_of_replicas(with_keda), 30, "the operator to own the number")
    wait_for(lambda: with_keda.get("scaledobject", f"{NAME}-autoscaler") is None, 30, "the ScaledObject to go")
    found = wait_for_condition(with_keda, NAME, "Ready", "True", timeout_s=READY_S)
    assert not condition(found, "AutoscalingSignalReady")


def test_monitors_and_alerts_are_made_where_they_are_known(scaled: Kubectl, folder: Path) -> None:
    # The operator looks for kinds that have come each minute.
    wait_for_condition(scaled, NAME, "MonitoringReady", "True", timeout_s=75.0)
    monitor, rule = scaled.get("podmonitor", f"{NAME}-monitor"), scaled.get("prometheusrule", f"{NAME}-alerts")
    assert monitor is not None
    assert rule is not None
    file = folder / "rules.json"
    file.write_text(json.dumps(rule["spec"]))
    assert "SUCCESS" in run_command(["promtool", "check", "rules", file])


def test_prometheus_understands_every_panel_and_answers_those_of_a_service(scaled: Kubectl, folder: Path) -> None:
    variables = {"namespace": scaled.namespace or "", "service": NAME, "pod": pods(scaled)[0]["metadata"]["name"]}
    panels = {path.stem: [_filled_in(target["expr"], variables) for target in targets(path)] for path in DASHBOARDS}
    everything = [expression for expressions in panels.values() for expression in expressions]
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(everything)]
    file = folder / "panels.json"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in run_command(["promtool", "check", "rules", file])
    assert sum(bool(prometheus.query(expression)) for expression in panels["service"]) > 8


def targets(dashboard: Path) -> list[Object]:
    return [target for panel in json.loads(dashboard.read_text())["panels"] for target in panel["targets"]]


def _filled_in(expression: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        expression = expression.replace(f"${name}", value)
    return expression
