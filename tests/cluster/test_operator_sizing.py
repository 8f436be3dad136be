"""Models are inspected by real pods before any other pod is made, and what does not fit makes none."""

import itertools
from collections.abc import Iterator

import pytest

from tests.cluster.kubectl import Kubectl, condition, wait_for
from tests.operator.live import KIND, Object, applied, service, shared_namespace, wait_for_condition

INSPECTED_S = 90.0
TOLD_S = 60.0
READY_S = 240.0


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


SIZED = service("sized")
LARGE = service("large", resources={"cpu": "100m", "memory": "400Mi"}, runtime={"maxModelLen": 8192})
TINY = service("tiny", device="gpu", gpu={"memory": "1500Mi"}, resources={})
HEADS = service("heads", parallelism={"tensor": 2})
MISSING = service("missing", model={"source": "file:///models/none.gguf"})


@pytest.fixture(scope="module")
def served(octavo: Kubectl, namespace: Kubectl) -> Iterator[Kubectl]:
    """A namespace with all those services, `sized` Ready; together, since pods take seconds to start."""
    with applied(namespace, SIZED, LARGE, TINY, HEADS, MISSING):
        wait_for_condition(namespace, "sized", "Ready", "True", timeout_s=READY_S)
        yield namespace


def status(kubectl: Kubectl, name: str) -> Object:
    found = kubectl.get(KIND, name)
    assert found is not None
    state: Object = found["status"]
    return state


def jobs(kubectl: Kubectl, name: str) -> list[Object]:
    return kubectl.list("jobs", f"serving.octavo.dev/service={name}")


def test_a_model_that_fits_is_sized_from_its_own_header(served: Kubectl) -> None:
    found = wait_for_condition(served, "sized", "MemoryFits", "True", says="Fits: fits, with contexts of 512 tokens")
    inspection, sizing = found["status"]["inspection"], found["status"]["sizing"]
    assert (inspection["format"], inspection["dtype"]) == ("gguf", "Q4_1")
    assert (inspection["model"]["layers"], inspection["model"]["kvHeads"]) == (30, 3)
    assert sizing["weightsBytes"] == 2 * 134_515_008
    assert sizing["kvBytesPerToken"] == 2 * 30 * 3 * 64 * 2
    assert sizing["arithmetic"] in condition(found, "MemoryFits")["message"]


def test_as_many_blocks_are_there_as_were_predicted(served: Kubectl) -> None:
    """The pods say so by their `/state`."""
    sizing = wait_for(lambda: reported(served), 60, "the pods to report their blocks")
    assert sizing["reportedBlocks"] == sizing["blocks"] == (128 << 20) // (32 * sizing["kvBytesPerToken"]) - 1


def reported(kubectl: Kubectl) -> Object | None:
    sizing: Object = status(kubectl, "sized")["sizing"]
    return sizing if "reportedBlocks" in sizing else None


def test_a_job_is_gone_once_its_result_is_kept_and_never_comes_again(served: Kubectl) -> None:
    """Another number of pods, or another context, is the same model."""
    wait_for(lambda: not jobs(served, "sized"), 30, "the Job to go")
    served.patch(KIND, "sized", {"spec": {"replicas": 0, "runtime": {"maxModelLen": 256}}})
    wait_for_condition(served, "sized", "MemoryFits", "True", says="contexts of 256 tokens", timeout_s=TOLD_S)
    assert not jobs(served, "sized")


def test_a_model_that_is_too_large_is_stalled_and_makes_no_pod(served: Kubectl) -> None:
    found = wait_for_condition(served, "large", "Stalled", "True", says="DoesNotFit", timeout_s=INSPECTED_S)
    message = condition(found, "MemoryFits")["message"]
    assert condition(found, "MemoryFits")["status"] == "False"
    assert message.startswith("does not fit: at tensor degree 1 the pod needs")
    assert "set spec.resources.memory to at least" in message
    assert "limit 400 MiB = 400 MiB − weights 256.57 MiB" in message
    assert condition(found, "SpecValid")["status"] == "True"
    assert served.get("deployment", "large") is None
    assert not served.list("pods", "serving.octavo.dev/service=large")
    served.patch(KIND, "large", {"spec": {"replicas": 0, "resources": {"memory": "2Gi"}}})
    wait_for_condition(served, "large", "Ready", "True", says="ScaledToZero", timeout_s=TOLD_S)


def test_memory_of_a_gpu_is_what_the_spec_says(served: Kubectl) -> None:
    """There is no GPU here: only the arithmetic is of one."""
    found = wait_for_condition(served, "tiny", "MemoryFits", "False", says="DoesNotFit", timeout_s=INSPECTED_S)
    assert "no tensor degree makes it fit" in condition(found, "MemoryFits")["message"]
    served.patch(KIND, "tiny", {"spec": {"gpu": {"memory": "24Gi"}, "replicas": 0}})
    wait_for_condition(served, "tiny", "MemoryFits", "True", says="90 % of 24 GiB", timeout_s=TOLD_S)


@pytest.fixture
def labelled(cluster: Kubectl, own_cluster: None) -> Iterator[None]:
    """The node that declares GPUs says that each has 24 GiB."""
    name = "nvidia.com/gpu.memory"
    nodes = [
        node["metadata"]["name"] for node in cluster.list("nodes") if "nvidia.com/gpu" in node["status"]["capacity"]
    ]
    cluster.run("label", "nodes", *nodes, "--overwrite", f"{name}=24576")
    yield
    cluster.run("label", "nodes", *nodes, f"{name}-")


def test_memory_of_a_gpu_is_what_its_node_says(served: Kubectl, labelled: None) -> None:
    """Nodes are listed at most every half minute, and their labels are no events: something else makes the operator look."""
    times = itertools.count()

    def told() -> bool:
        served.run("label", KIND, "told", "--overwrite", f"look=n{next(times)}")
        return "90 % of 24 GiB" in condition(served.get(KIND, "told"), "MemoryFits").get("message", "")

    with applied(served, service("told", device="gpu", replicas=0, resources={})):
        wait_for(told, INSPECTED_S, "the node's label to count", interval_s=3.0)
        wait_for_condition(served, "told", "MemoryFits", "True", timeout_s=TOLD_S)


def test_heads_that_the_degree_does_not_divide_are_refused(served: Kubectl) -> None:
    found = wait_for_condition(served, "heads", "Stalled", "True", says="DegreeImpossible", timeout_s=INSPECTED_S)
    assert condition(found, "MemoryFits")["message"].endswith("give one of 1, 3")
    assert served.get("deployment", "heads") is None


def test_an_inspection_that_fails_says_why_and_holds_nobody(served: Kubectl) -> None:
    found = wait_for_condition(
        served, "missing", "MemoryFits", "Unknown", says="InspectionFailed", timeout_s=INSPECTED_S
    )
    message = condition(found, "MemoryFits")["message"]
    assert "/models/none.gguf does not exist" in message
    assert f"delete the Job {jobs(served, 'missing')[0]['metadata']['name']}" in message
    wait_for(lambda: served.get("deployment", "missing"), 30, "the pods to be made")
    wait_for_condition(served, "missing", "Stalled", "False", timeout_s=TOLD_S)
