"""An operator that was given one namespace and sees no nodes: what it says of room, and how `Auto` goes on where nothing but the
scheduler and the API server tell. The pods get places and never start.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.cluster.kubectl import Kubectl, wait_for
from tests.cluster.limited import limited
from tests.cluster.lonely import lonely_namespace, without_operator
from tests.cluster.operator_process import operator
from tests.operator.live import KIND, Object, applied, service, wait_for_condition

# What the scheduler keeps saying is believed after half a minute.
pytestmark = [pytest.mark.usefixtures("own_cluster"), pytest.mark.long]

BELIEVED_S = 75.0
LABEL = {"serving.octavo.dev/service": "apart"}
SERVICES = ("apart", "bounded")


def with_pod(name: str, **pod: Any) -> Object:
    return service(name, replicas=1, resources={"cpu": "10m", "memory": "16Mi"}, podTemplate={"spec": pod})


APART = with_pod(
    "apart",
    affinity={
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": LABEL}}
            ]
        }
    },
)
BOUNDED = with_pod("bounded", containers=[{"name": "runtime", "resources": {"requests": {"ephemeral-storage": "1Mi"}}}])
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "one-pod"},
    "spec": {"hard": {"requests.ephemeral-storage": "1Mi"}},
}
ON_NO_NODE = "example.com/accelerator"
GPU = service("gpu", device="gpu", gpu={"resource": ON_NO_NODE}, resources={"cpu": "10m", "memory": "16Mi"})


@pytest.fixture(scope="module")
def namespace(
    cluster: Kubectl, octavo: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Kubectl, dict[str, str]]]:
    """The services, `apart` and `bounded` just changed; and the pods that these had before."""
    folder = tmp_path_factory.mktemp("namespaced")
    with without_operator(octavo), lonely_namespace(cluster) as kubectl, limited(kubectl, folder) as kubeconfig:
        arguments = [f"--namespace={kubectl.namespace}", "--runtime-image=registry.invalid/rt:1", "--no-inspection"]
        kubectl.apply(QUOTA)
        with (
            operator(kubectl.access, folder / "log", *arguments, kubeconfig=kubeconfig),
            applied(kubectl, APART, BOUNDED, GPU),
        ):
            before = {name: wait_for(partial(placed, kubectl, name), 60, f"the pod of {name}") for name in SERVICES}
            for name in SERVICES:
                kubectl.patch(KIND, name, {"spec": {"runtime": {"maxNumSeqs": 8}}})
            yield kubectl, before


def placed(kubectl: Kubectl, name: str) -> str:
    """The uid of the service's newest pod, if all of its pods have places."""
    pods = kubectl.list("pods", f"serving.octavo.dev/service={name}")
    newest = sorted(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])
    return newest[-1]["metadata"]["uid"] if newest and all("nodeName" in pod["spec"] for pod in pods) else ""


def test_says_that_room_is_not_known_and_what_the_scheduler_says(namespace: tuple[Kubectl, dict[str, str]]) -> None:
    kubectl, _ = namespace
    wait_for_condition(kubectl, "gpu", "CapacityAvailable", "Unknown", says="NotKnown: the operator may not list")
    lacks = f"Insufficient {ON_NO_NODE}"
    wait_for_condition(kubectl, "gpu", "CapacityAvailable", "Unknown", says=lacks, timeout_s=BELIEVED_S)
    wait_for_condition(kubectl, "gpu", "RolloutBlocked", "True", says=lacks)


@pytest.mark.parametrize("name", SERVICES)
def test_an_old_pod_gives_way_where_it_keeps_a_new_one_out(
    namespace: tuple[Kubectl, dict[str, str]], name: str
) -> None:
    kubectl, before = namespace
    wait_for(lambda: placed(kubectl, name) not in ("", before[name]), BELIEVED_S, "the new pod in place of the old")
