"""What the operator does with children and status, on services without pods: nothing has to load."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.cluster import local_operator
from tests.cluster.kubectl import CommandError, Kubectl, condition, wait_for
from tests.operator.live import (
    KIND,
    Object,
    applied,
    reason_of,
    service,
    shared_namespace,
    versions,
    wait_for_condition,
)


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


@pytest.fixture
def stopped(octavo: Kubectl, namespace: Kubectl) -> Iterator[Kubectl]:
    """A namespace with the service `stopped`, reconciled, which has children and no pods."""
    with applied(namespace, service("stopped", suspend=True, replicas=2)):
        wait_for_condition(namespace, "stopped", "Ready", "True", says="Suspended")
        yield namespace


def child(kubectl: Kubectl, kind: str, name: str = "stopped") -> Object:
    return wait_for(lambda: kubectl.get(kind, name), 20, f"{kind} {name}")


def test_makes_children_that_belong_to_the_service_and_says_where_it_answers(stopped: Kubectl) -> None:
    parent = child(stopped, KIND)
    for kind in ("deployment", "service"):
        [owner] = child(stopped, kind)["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (parent["metadata"]["uid"], True)
    status = parent["status"]
    assert status["observedGeneration"] == parent["metadata"]["generation"]
    assert status["url"] == f"http://stopped.{stopped.namespace}.svc"
    assert status["selector"] == "serving.octavo.dev/service=stopped,serving.octavo.dev/serving=true"
    assert (status["replicas"], status["readyReplicas"]) == (0, 0)


def test_leaves_no_finalizer_and_no_annotation_on_the_service(stopped: Kubectl) -> None:
    metadata = child(stopped, KIND)["metadata"]
    assert "finalizers" not in metadata
    assert not [name for name in metadata.get("annotations", {}) if "kopf" in name]


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        pytest.param(
            "deployment", {"spec": {"revisionHistoryLimit": 9}}, "revisionHistoryLimit", id="a Deployment's value"
        ),
        pytest.param("service", {"spec": {"selector": {"more": "x"}}}, "selector", id="a Service's selector"),
    ],
)
def test_puts_back_what_is_changed_by_hand(stopped: Kubectl, kind: str, change: Object, field: str) -> None:
    before = child(stopped, kind)["spec"][field]
    stopped.patch(kind, "stopped", change)
    wait_for(lambda: child(stopped, kind)["spec"][field] == before, 20, f"{kind}'s {field} to be put back")


@pytest.mark.parametrize(
    ("kind", "shown", "changed"),
    [
        pytest.param("service", "{.spec.ports}", "/spec/ports/0/port", id="a Service's"),
        pytest.param(
            "deployment",
            "{.spec.template.spec.containers[0].ports}",
            "/spec/template/spec/containers/0/ports/0/containerPort",
            id="a container's",
        ),
    ],
)
def test_puts_back_a_port_that_is_changed_by_hand(stopped: Kubectl, kind: str, shown: str, changed: str) -> None:
    """Merged by number, ours would be a second port of the same name, which the API server refuses."""

    def ports() -> str:
        return stopped.run("get", kind, "stopped", f"--output=jsonpath={shown}")

    before, since = ports(), condition(child(stopped, KIND), "Stalled")["lastTransitionTime"]
    change = [{"op": "replace", "path": changed, "value": 9}]
    stopped.run("patch", kind, "stopped", "--type=json", f"--patch={json.dumps(change)}")
    wait_for(lambda: ports() == before, 20, f"the {kind}'s ports to be put back")
    found = wait_for_condition(stopped, "stopped", "Ready", "True", says="Suspended")
    assert condition(found, "Stalled")["lastTransitionTime"] == since, "it was never Stalled"


def test_leaves_what_others_add(stopped: Kubectl) -> None:
    stopped.run("rollout", "restart", "deployment/stopped")
    stopped.patch("deployment", "stopped", {"spec": {"revisionHistoryLimit": 9}})
    wait_for(lambda: child(stopped, "deployment")["spec"]["revisionHistoryLimit"] == 3, 20, "the value to be put back")
    template = child(stopped, "deployment")["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]


@pytest.mark.parametrize("kind", ["deployment", "service"])
def test_makes_a_deleted_child_again(stopped: Kubectl, kind: str) -> None:
    before = child(stopped, kind)["metadata"]["uid"]
    stopped.delete(kind, "stopped", wait=False)
    wait_for(lambda: child(stopped, kind)["metadata"]["uid"] != before, 30, f"a new {kind}")


def test_deleting_the_service_removes_its_children(stopped: Kubectl) -> None:
    stopped.delete(KIND, "stopped")
    for kind in ("deployment", "service"):
        wait_for(lambda kind=kind: stopped.get(kind, "stopped") is None, 60, f"the {kind} to go")  # type: ignore[misc]


def test_a_service_made_again_at_once_is_not_stalled_by_what_the_first_left(stopped: Kubectl) -> None:
    before = child(stopped, "deployment")["metadata"]["uid"]
    stopped.delete(KIND, "stopped")
    stopped.apply(service("stopped", suspend=True))
    found = wait_for_condition(stopped, "stopped", "Ready", "True", says="Suspended", timeout_s=60)
    assert child(stopped, "deployment")["metadata"]["uid"] != before
    times = {entry["type"]: entry["lastTransitionTime"] for entry in found["status"]["conditions"]}
    assert times["Stalled"] == times["SpecValid"], "it was never Stalled"


@pytest.fixture
def taken(octavo: Kubectl, namespace: Kubectl) -> Kubectl:
    """A namespace in which someone else's Service is called `taken`."""
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken"},
        "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 80}]},
    }
    namespace.apply(foreign)
    return namespace


def test_a_name_that_is_taken_stays_untouched_until_it_is_free(taken: Kubectl) -> None:
    before = child(taken, "service", "taken")["metadata"]["resourceVersion"]
    taken.apply(service("taken", suspend=True))
    found = wait_for_condition(taken, "taken", "Stalled", "True", says="NameConflict: a Service named taken exists")
    assert reason_of(taken, "taken", "SpecValid").startswith("True")
    assert found["status"]["observedGeneration"] == 1
    assert child(taken, "service", "taken")["metadata"]["resourceVersion"] == before
    assert taken.get("deployment", "taken") is None
    taken.delete("service", "taken")
    wait_for_condition(taken, "taken", "Ready", "True", says="Suspended", timeout_s=60)


def test_what_the_api_server_refuses_is_said(octavo: Kubectl, namespace: Kubectl) -> None:
    toleration = {"key": "not a key!", "operator": "Exists"}
    namespace.apply(service("refused", device="gpu", gpu={"tolerations": [toleration]}, suspend=True))
    wait_for_condition(namespace, "refused", "Stalled", "True", says="Rejected: the API server refuses a child")
    assert reason_of(namespace, "refused", "SpecValid").startswith("False Rejected")
    namespace.patch(KIND, "refused", {"spec": {"gpu": {"tolerations": []}}})
    wait_for_condition(namespace, "refused", "Ready", "True", says="Suspended")


def test_scaling_reaches_the_deployment_and_the_selector_is_there_for_autoscalers(stopped: Kubectl) -> None:
    stopped.patch(KIND, "stopped", {"spec": {"suspend": False, "runtime": {"image": "registry.invalid/none:1"}}})
    stopped.run("scale", "oisvc/stopped", "--replicas=0")
    wait_for_condition(stopped, "stopped", "Ready", "True", says="ScaledToZero")
    scale = json.loads(stopped.run("get", "oisvc/stopped", "--subresource=scale", "--output=json"))
    assert scale["spec"].get("replicas", 0) == 0
    assert scale["status"]["selector"] == "serving.octavo.dev/service=stopped,serving.octavo.dev/serving=true"


@pytest.mark.skipif(local_operator.namespace() is not None, reason="OCTAVO_TEST_NAMESPACE: the operator is no pod")
def test_a_restarted_operator_writes_nothing(octavo: Kubectl, namespace: Kubectl) -> None:
    with applied(namespace, service("kept", suspend=True)):
        wait_for_condition(namespace, "kept", "Ready", "True", says="Suspended")
        before = versions(namespace, "kept")
        metrics = restart_operator(octavo)
        assert "octavo_operator_writes_total{" not in metrics
        assert versions(namespace, "kept") == before
        assert len(before) == 3


def restart_operator(octavo: Kubectl) -> str:
    """Deletes the operator's pods; returns the metrics of the one that leads then, once it has looked at every service."""
    selector = "app.kubernetes.io/name=octavo-operator"
    before = {pod["metadata"]["name"] for pod in octavo.list("pods", selector)}
    octavo.run("delete", "pods", f"--selector={selector}")
    services = len(json.loads(octavo.run("get", KIND, "--all-namespaces", "--output=json"))["items"])

    def metrics_of(pod: str) -> str:
        try:
            return octavo.run("get", "--raw", f"/api/v1/namespaces/{octavo.namespace}/pods/{pod}:8080/proxy/metrics")
        except CommandError:
            return ""  # not listening yet

    def reconciled() -> str | None:
        names = {pod["metadata"]["name"] for pod in octavo.list("pods", selector)} - before
        led = next((text for text in map(metrics_of, names) if "octavo_operator_leader 1.0" in text), "")
        counts = re.findall(r"^octavo_operator_reconciles_total\{.*\} (.*)$", led, re.MULTILINE)
        return led if sum(map(float, counts)) >= services and "queue_depth 0.0" in led else None

    return wait_for(reconciled, 90, "a new operator to have looked at every service")
