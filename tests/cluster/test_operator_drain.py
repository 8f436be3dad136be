"""Nothing is lost while pods are replaced: clients ask again and again through the Service, over kube-proxy, and retry nothing."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.cluster.kubectl import Kubectl, wait_for
from tests.cluster.onenode.machine import child_environ
from tests.cluster.strict_clients import Tally, asking
from tests.operator.live import KIND, Object, applied, service, shared_namespace, wait_for_condition

# The address of a Service leads somewhere only on the cluster's own machine, and a node is drained.
pytestmark = pytest.mark.usefixtures("own_cluster")

READY_S = 240.0
TOKENS = 8
DRAINED = "octavo.test/drained"


@pytest.fixture(scope="module")
def served(octavo: Kubectl, cluster: Kubectl) -> Iterator[Kubectl]:
    """A namespace with the service `steady`, Ready with one pod: shared, since loading takes seconds. Tests leave it Ready."""
    with (
        shared_namespace(cluster) as namespace,
        applied(namespace, service("steady", rollout={"drainTimeoutSeconds": 30})),
    ):
        wait_for_condition(namespace, "steady", "Ready", "True", timeout_s=READY_S)
        yield namespace


@pytest.fixture
def asked(served: Kubectl) -> Iterator[Tally]:
    """Clients that ask the service from before the test to after it; in the end no request of theirs may be lost."""
    found = served.get("service", "steady")
    assert found is not None
    with asking(f"{found['spec']['clusterIP']}:80", "steady", TOKENS) as tally:
        wait_for(lambda: len(tally.whole) == 4 and all(tally.whole.values()), 120, "the first answers")
        yield tally
    assert tally.lost == []


def pods(kubectl: Kubectl) -> dict[str, Object]:
    """All pods of the service, ending ones too, by uid."""
    return {pod["metadata"]["uid"]: pod for pod in kubectl.list("pods", "serving.octavo.dev/service=steady")}


def wait_until_ready(kubectl: Kubectl, count: int) -> None:
    """Ready, and no pod is ending any more."""
    wait_for(lambda: len(pods(kubectl)) == count, READY_S, f"{count} pods and none that ends")
    wait_for_condition(kubectl, "steady", "Ready", "True", timeout_s=READY_S)


def test_a_rollout_loses_no_request(served: Kubectl, asked: Tally) -> None:
    before = pods(served)
    served.patch(KIND, "steady", {"spec": {"runtime": {"maxNumSeqs": 8}}})
    wait_for(lambda: not pods(served).keys() & before.keys(), READY_S, "the earlier pods to be gone")
    wait_until_ready(served, 1)


def test_neither_kubectl_scale_nor_a_drained_node_loses_a_request(
    cluster: Kubectl, served: Kubectl, asked: Tally
) -> None:
    served.run("scale", f"{KIND}/steady", "--replicas=2")
    wait_until_ready(served, 2)
    drain(cluster, served, next(iter(pods(served).values())))
    served.run("scale", f"{KIND}/steady", "--replicas=1")
    wait_until_ready(served, 1)


def drain(cluster: Kubectl, kubectl: Kubectl, pod: Object) -> None:
    """Drains the pod's node of that pod alone, since the node is all there is, and lets pods come again at once."""
    kubectl.run("label", "pod", pod["metadata"]["name"], f"{DRAINED}=true")
    node = pod["spec"]["nodeName"]
    words = cluster.words("drain", node, f"--pod-selector={DRAINED}=true", "--delete-emptydir-data", "--timeout=120s")
    draining = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=child_environ())
    try:
        wait_for(lambda: ending(kubectl), 60, "the pod to be evicted")
        cluster.run("uncordon", node)
        output, _ = draining.communicate(timeout=120)
    finally:
        draining.kill()
        cluster.run("uncordon", node)
    assert draining.returncode == 0, output
    assert pod["metadata"]["uid"] not in pods(kubectl)


def ending(kubectl: Kubectl) -> list[Object]:
    return [pod for pod in pods(kubectl).values() if "deletionTimestamp" in pod["metadata"]]
