"""`Auto` on nodes with GPUs: real scheduler, real controllers, real counting; the nodes' GPUs and kubelets are kwok's."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.cluster.fake_nodes import SELECTOR, TOLERATION, fake_nodes
from tests.cluster.kubectl import Kubectl, condition, wait_for
from tests.cluster.onenode.machine import child_environ
from tests.operator.live import KIND, Object, applied, service, shared_namespace, wait_for_condition

pytestmark = pytest.mark.usefixtures("own_cluster")

NODES = ("r1", "r2")
GPUS = 4  # of each node


@pytest.fixture(scope="module")
def namespace(octavo: Kubectl, cluster: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A namespace beside two nodes with four GPUs each."""
    capacity = {"nvidia.com/gpu": str(GPUS)}
    folder = tmp_path_factory.mktemp("kwok")
    with fake_nodes(cluster, folder, NODES, capacity=capacity), shared_namespace(cluster) as kubectl:
        yield kubectl


def gpu_service(name: str, replicas: int, tensor: int, **spec: Any) -> Object:
    gpu = {"memory": "80Gi", "nodeSelector": SELECTOR, "tolerations": [TOLERATION]}
    return service(
        name,
        device="gpu",
        gpu=gpu,
        replicas=replicas,
        parallelism={"tensor": tensor},
        resources={"memory": "1Gi"},
        **spec,
    )


@contextmanager
def neighbour(kubectl: Kubectl, gpus: int) -> Iterator[None]:
    """A pod of someone else's that holds GPUs while the block runs."""
    kubectl.apply(tenant(gpus))
    try:
        wait_for(lambda: "nodeName" in (kubectl.get("pod", "neighbour") or {})["spec"], 60, "the neighbour's place")
        yield
    finally:
        kubectl.delete("pod", "neighbour")


def tenant(gpus: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "neighbour"},
        "spec": {
            "nodeSelector": SELECTOR,
            "tolerations": [TOLERATION],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        },
    }


@dataclass
class Course:
    """What a Deployment went through: each state of its strategy and its ready pods."""

    states: list[tuple[str, int]] = field(default_factory=list)

    @property
    def strategies(self) -> list[str]:
        """In order, none twice in a row."""
        names = [name for name, _ in self.states]
        return [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]

    @property
    def fewest_ready(self) -> int:
        return min(ready for _, ready in self.states)


@contextmanager
def watched(kubectl: Kubectl, name: str) -> Iterator[Course]:
    """The course of the Deployment while the block runs, from what it is before on, to be read after it."""
    words = kubectl.words("get", "deployment", name, "--watch", "--output=json")
    course = Course()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=child_environ()) as process:
        assert process.stdout is not None
        try:
            text = process.stdout.readline()
            yield course
        finally:
            process.terminate()
            text += process.stdout.read()
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        try:
            live, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return  # the last one was cut off
        course.states.append((strategy(live), live["status"].get("readyReplicas", 0)))


def strategy(deployment: Object) -> str:
    found = deployment["spec"]["strategy"]
    if found["type"] == "Recreate":
        return "Recreate"
    rolling = found["rollingUpdate"]
    return "Surge" if rolling["maxSurge"] else f"OneByOne {rolling['maxUnavailable']}"


def uids(kubectl: Kubectl, name: str) -> set[str]:
    found = kubectl.list("pods", f"serving.octavo.dev/service={name}")
    return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}


def change(kubectl: Kubectl, name: str, **spec: Any) -> Course:
    """Changes the spec and follows the rollout until no earlier pod is left and the service is Ready."""
    before = uids(kubectl, name)
    with watched(kubectl, name) as course:
        kubectl.patch(KIND, name, {"spec": spec})
        wait_for(lambda: not uids(kubectl, name) & before, 90, f"the pods of {name} to be replaced")
        wait_for_condition(kubectl, name, "Ready", "True", timeout_s=60)
        wait_for_condition(kubectl, name, "RolloutBlocked", "False", says="NotRollingOut")
    return course


def test_surges_where_a_gpu_is_spare_and_misses_no_pod(namespace: Kubectl) -> None:
    with applied(namespace, gpu_service("spare", replicas=3, tensor=2)):
        wait_for_condition(namespace, "spare", "Ready", "True", timeout_s=120)
        wait_for_condition(namespace, "spare", "CapacityAvailable", "True", says="AllPlaced")
        course = change(namespace, "spare", runtime={"maxNumSeqs": 8})
        assert (course.strategies, course.fewest_ready) == (["Surge"], 3)


def test_recreates_where_the_first_bigger_pod_needs_what_all_hold(namespace: Kubectl) -> None:
    pinned = {**SELECTOR, "kubernetes.io/hostname": NODES[0]}
    spec = gpu_service("grow", replicas=2, tensor=2)
    spec["spec"]["gpu"]["nodeSelector"] = pinned
    with applied(namespace, spec):
        wait_for_condition(namespace, "grow", "Ready", "True", timeout_s=120)
        with watched(namespace, "grow") as course:
            namespace.patch(KIND, "grow", {"spec": {"parallelism": {"tensor": 4}}})
            found = wait_for_condition(
                namespace,
                "grow",
                "CapacityAvailable",
                "False",
                says="1 pod of 4 nvidia.com/gpu more: it does not fit",
                timeout_s=90,
            )
        assert "Recreate" in course.strategies
        assert "InsufficientGPUs: 1 pod of 4 nvidia.com/gpu wait" in text(found, "RolloutBlocked")
        wait_for_condition(namespace, "grow", "Available", "True", timeout_s=60)
        namespace.patch(KIND, "grow", {"spec": {"replicas": 1}})
        wait_for_condition(namespace, "grow", "Ready", "True", timeout_s=60)


def test_goes_one_by_one_where_none_is_and_misses_one_pod_at_most(namespace: Kubectl) -> None:
    with applied(namespace, gpu_service("full", replicas=3, tensor=2)), neighbour(namespace, 2):
        wait_for_condition(namespace, "full", "Ready", "True", timeout_s=120)
        course = change(namespace, "full", runtime={"maxNumSeqs": 8})
        assert course.strategies[:2] == ["Surge", "OneByOne 1"]
        assert course.fewest_ready >= 2
        live = namespace.get("deployment", "full")
        assert live is not None
        assert strategy(live) == "Surge", "as always at rest"


def test_stops_no_pod_for_a_change_that_fits_nowhere_and_takes_them_up_again_after_a_revert(namespace: Kubectl) -> None:
    with applied(namespace, gpu_service("kept", replicas=2, tensor=2)):
        wait_for_condition(namespace, "kept", "Ready", "True", timeout_s=120)
        before = uids(namespace, "kept")
        namespace.patch(KIND, "kept", {"spec": {"parallelism": {"tensor": 8}}})
        found = wait_for_condition(namespace, "kept", "RolloutBlocked", "True", says="InsufficientGPUs", timeout_s=60)
        assert "r1 has" in text(found, "RolloutBlocked")
        assert "so these stay" in text(found, "RolloutBlocked")
        wait_for(lambda: len(uids(namespace, "kept")) == 3, 30, "the first of the new pods, which waits")
        assert before < uids(namespace, "kept")
        namespace.patch(KIND, "kept", {"spec": {"parallelism": {"tensor": 2}}})
        wait_for_condition(namespace, "kept", "Ready", "True", timeout_s=60)
        wait_for(lambda: uids(namespace, "kept") == before, 30, "only the earlier pods to be left")


def text(live: Object, kind: str) -> str:
    found = condition(live, kind)
    return f"{found['reason']}: {found['message']}"
