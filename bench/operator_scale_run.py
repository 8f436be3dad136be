"""One operator process and many services on the one-node cluster, whose pods kwok plays: what `operator_scale` measures."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo_operator import access as operator_access
from octavo_operator import kinds, kube
from octavo_sizing.inspection import Inspection, StoredBytes
from tests.cluster.access import Access
from tests.cluster.fake_nodes import SELECTOR, TOLERATION
from tests.cluster.installation import CRD, OWNED_LABEL
from tests.cluster.kubectl import Kubectl, wait_for
from tests.cluster.onenode import control_plane, lifecycle
from tests.cluster.operator_process import Operator, operator, used_cpu_s
from tests.sizing.models import LLAMA_8B

NAMESPACES = 10
CREATED_AT_ONCE = 16
# How often is looked whether all are Ready: each look has the API server read all of them.
LOOK_S = 4.0
IMAGE = "registry.invalid/octavo-runtime:1"
# What the pods find that inspect a model: the shape of one with 8 billion parameters.
INSPECTION = Inspection(
    source="file:///models",
    format="safetensors",
    dtype="bfloat16",
    stored=StoredBytes(embedding=1 << 30, head=1 << 30, attention=3 << 30, mlp=10 << 30, norms=1 << 19),
    model=LLAMA_8B,
).to_json()
# The one-node cluster has addresses for 254 Services. Nobody connects to these.
ADDRESSES: dict[str, Any] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "ServiceCIDR",
    "metadata": {"name": "octavo-scale"},
    "spec": {"cidrs": ["10.248.0.0/20"]},
}
GPU_MEMORY = {"nvidia.com/gpu.memory": "81920"}


@dataclass(frozen=True)
class Figures:
    """Of one number of services. Counts are the operator's own; requests are those that are no watch. CPU is what was used until
    all were Ready, by the operator from its start on and by API server, etcd, controllers and scheduler."""

    services: int
    created_s: float
    converged_s: float
    ready: int
    requests: float
    writes: float
    reconciles: float
    cpu_s: float
    cluster_cpu_s: float
    peak_bytes: int
    idle_writes: float
    idle_requests: float


@dataclass(frozen=True)
class Fleet:
    """How many services in which namespaces, what the operator is told besides, and how long nothing is written before it counts as
    idle: pods that kwok plays do not answer, and the operator asks each several times."""

    services: int
    namespaces: tuple[str, ...] = tuple(f"octavo-scale-{number}" for number in range(NAMESPACES))
    arguments: tuple[str, ...] = ()
    quiet_s: float = 45.0


def service(number: int, namespace: str) -> dict[str, Any]:
    """Those of a namespace are of one model."""
    return {
        "apiVersion": "serving.octavo.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": f"s{number:04d}", "namespace": namespace},
        "spec": {
            "model": {"source": f"file:///models/{namespace}"},
            "device": "gpu",
            "gpu": {"nodeSelector": SELECTOR, "tolerations": [TOLERATION]},
            "replicas": 1,
        },
    }


@contextlib.contextmanager
def made(cluster: Kubectl, namespaces: Sequence[str]) -> Iterator[None]:
    """The namespaces while the block runs, and addresses for as many Services as there may be."""
    metadata = ({"name": name, "labels": {OWNED_LABEL: "true"}} for name in namespaces)
    cluster.apply(ADDRESSES, *({"apiVersion": "v1", "kind": "Namespace", "metadata": each} for each in metadata))
    try:
        yield
    finally:
        cluster.run("delete", "namespaces", *namespaces, "--ignore-not-found", "--wait=false", timeout_s=60.0)
        cluster.run("delete", "servicecidr", ADDRESSES["metadata"]["name"], "--wait=false", timeout_s=60.0)


def measure(access: Access, fleet: Fleet, idle_s: float, limit_s: float, log: Path) -> Figures:
    """With a fresh operator and no services at the beginning; they are deleted at the end. Raises TimeoutError past `limit_s`."""
    cluster = Kubectl(access)
    with operator(access, log, f"--runtime-image={IMAGE}", *fleet.arguments) as process:
        began_s, before_s = time.monotonic(), cluster_cpu_s()
        try:
            asyncio.run(_create(access, fleet))
            created_s = time.monotonic() - began_s
            converged_s = _converged_s(cluster, fleet, began_s, limit_s)
            cpu_s, spent_s = process.cpu_s(), cluster_cpu_s() - before_s
            ready = _ready(cluster, fleet)
            _rest(process, fleet.quiet_s)
            counted = _counts(process)
            time.sleep(idle_s)
            after = _counts(process)
        finally:
            _clear(cluster, fleet)
        return Figures(
            fleet.services,
            created_s,
            converged_s,
            ready,
            *counted,
            cpu_s,
            spent_s,
            process.peak_bytes(),
            idle_writes=after[1] - counted[1],
            idle_requests=after[0] - counted[0],
        )


def cluster_cpu_s() -> float:
    """What API server, etcd, controllers and scheduler have used so far."""
    found = (lifecycle.PROCESSES.find(name) for name in control_plane.NAMES)
    return sum(used_cpu_s(record.pid) for record in found if record is not None)


def _clear(cluster: Kubectl, fleet: Fleet) -> None:
    """Deletes the services, and returns once their pods are gone too: the next number begins from nothing."""
    for name in fleet.namespaces:
        cluster.within(name).run("delete", CRD, "--all", "--wait=false", timeout_s=120.0)
    for name in fleet.namespaces:
        within = cluster.within(name)
        wait_for(lambda within=within: not within.run("get", "pods", "--output=name"), 300, f"pods of {name} to go")  # type: ignore[misc]


async def _create(access: Access, fleet: Fleet) -> None:
    waiting = iter(range(fleet.services))

    async def some(api: kube.Kube) -> None:
        for number in waiting:
            await api.create(kinds.INFERENCE_SERVICE, service(number, fleet.namespaces[number % len(fleet.namespaces)]))

    async with kube.connection(operator_access.Access(access.kubeconfig, access.context)) as api:
        await asyncio.gather(*(some(api) for _ in range(CREATED_AT_ONCE)))


def _converged_s(cluster: Kubectl, fleet: Fleet, began_s: float, limit_s: float) -> float:
    """Seconds from the beginning until every service was seen to be Ready."""
    while (ready := _ready(cluster, fleet)) < fleet.services:
        if time.monotonic() - began_s > limit_s:
            raise TimeoutError(f"{ready} of {fleet.services} services are Ready after {limit_s:.0f} s")
        time.sleep(LOOK_S)
    return time.monotonic() - began_s


def _rest(process: Operator, quiet_s: float) -> None:
    """Returns once the operator has written nothing for a while."""
    writes, since_s = process.writes(), time.monotonic()
    while time.monotonic() - since_s < quiet_s:
        time.sleep(1.0)
        if (counted := process.writes()) != writes:
            writes, since_s = counted, time.monotonic()


def _counts(process: Operator) -> tuple[float, float, float]:
    """Requests, writes and reconciles so far."""
    names = ("api_requests_total", "writes_total", "reconciles_total")
    requests, writes, reconciles = (process.sample(f"octavo_operator_{name}") or 0.0 for name in names)
    return requests, writes, reconciles


def _ready(cluster: Kubectl, fleet: Fleet) -> int:
    """As the table that the API server makes for `kubectl get` says it."""
    lines = cluster.run("get", CRD, "--all-namespaces", timeout_s=60.0).splitlines()
    if not lines:
        return 0
    at = lines[0].split().index("READY")
    rows = [line.split() for line in lines[1:]]
    return sum(row[0] in fleet.namespaces and row[at] == "True" for row in rows)
