"""Nothing is lost while pods are replaced: clients ask without a pause through the Service, over kube-proxy, and retry nothing."""

import subprocess
from collections.abc import Iterator, Set

import pytest

from tests.cluster.kubectl import Kubectl, wait_for
from tests.cluster.onenode.machine import child_environ
from tests.cluster.strict_clients import Tally, asking
from tests.operator.live import KIND, Object, applied, service, shared_namespace, wait_for_condition

# The address of a Service leads somewhere only on the cluster's own machine, and a node is drained.
pytestmark = [pytest.mark.usefixtures("own_cluster"), pytest.mark.long]

READY_S = 240.0
TOKENS = 8


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


def wait_until_replaced(kubectl: Kubectl, before: Set[str], count: int) -> None:
    """None of the pods `before` is left, also none that ends, and the service is Ready with `count` others."""
    wait_for(lambda: not pods(kubectl).keys() & before, READY_S, "the earlier pods to be gone")
    wait_until_ready(kubectl, count)


def wait_until_ready(kubectl: Kubectl, count: int) -> None:
    """Ready, and no pod is ending any more."""
    wait_for(lambda: len(pods(kubectl)) == count, READY_S, f"{count} pods and none that ends")
    wait_for_condition(kubectl, "steady", "Ready", "True", timeout_s=READY_S)


def test_a_rollout_loses_no_request(served: Kubectl, asked: Tally) -> None:
    before = pods(served)
    served.patch(KIND, "steady", {"spec": {"runtime": {"maxNumSeqs": 8}}})
    wait_until_replaced(served, before.keys(), 1)


def test_kubectl_rollout_restart_restarts_and_loses_no_request(served: Kubectl, asked: Tally) -> None:
    before = pods(served)
    served.run("rollout", "restart", "deployment/steady")
    wait_until_replaced(served, before.keys(), 1)


def test_kubectl_scale_up_and_down_loses_no_request(served: Kubectl, asked: Tally) -> None:
    served.run("scale", f"{KIND}/steady", "--replicas=2")
    wait_until_ready(served, 2)
    served.run("scale", f"{KIND}/steady", "--replicas=1")
    wait_until_ready(served, 1)


@pytest.fixture
def doubled(served: Kubectl) -> Iterator[Kubectl]:
    """The service with two pods, of which its budget lets one go at a time."""
    served.patch(KIND, "steady", {"spec": {"replicas": 2, "disruption": {"maxUnavailable": 1}}})
    wait_until_ready(served, 2)
    yield served
    served.patch(KIND, "steady", {"spec": {"replicas": 1, "disruption": None}})


def test_a_drained_node_loses_no_request(cluster: Kubectl, doubled: Kubectl, asked: Tally) -> None:
    """The node is all there is, so the second pod can go only once the node takes pods again and the first has a successor."""
    before = pods(doubled)
    [node] = {pod["spec"]["nodeName"] for pod in before.values()}
    selector = "--pod-selector=serving.octavo.dev/service=steady"
    words = cluster.words("drain", node, selector, "--delete-emptydir-data", "--timeout=240s")
    draining = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=child_environ())
    try:
        wait_for(lambda: ending(doubled), 60, "the first pod to be evicted")
        cluster.run("uncordon", node)
        output, _ = draining.communicate(timeout=240)
    finally:
        draining.kill()
        cluster.run("uncordon", node)
    assert draining.returncode == 0, output
    wait_until_replaced(doubled, before.keys(), 2)


def ending(kubectl: Kubectl) -> list[Object]:
    return [pod for pod in pods(kubectl).values() if "deletionTimestamp" in pod["metadata"]]
