"""What the cluster itself needs for the Deployments and Services of so many services, applied by one client without an operator."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from bench.operator_scale_run import CREATED_AT_ONCE, IMAGE, LOOK_S, Fleet, cluster_cpu_s, service
from octavo_operator import access as operator_access
from octavo_operator import kube, names, pins, plan
from octavo_operator import service as operator_service
from octavo_operator.desired.children import Child, children
from tests.cluster.access import Access
from tests.cluster.kubectl import Kubectl, wait_for

NOBODY = "octavo-scale-floor"


@dataclass(frozen=True)
class Floor:
    """Until all Deployments had their pod; CPU is that of API server, etcd, controllers and scheduler."""

    deployments: int
    applied_s: float
    available_s: float
    cluster_cpu_s: float

    def __str__(self) -> str:
        return (
            f"without an operator, {self.deployments:,} such Deployments and Services: applied in {self.applied_s:.0f} s, "
            f"pods of all ready after {self.available_s:.0f} s, control plane CPU {self.cluster_cpu_s:.0f} s"
        )


def measure_floor(access: Access, fleet: Fleet, limit_s: float) -> Floor:
    """Raises TimeoutError past `limit_s`. What was applied is deleted at the end."""
    cluster = Kubectl(access)
    began_s, before_s = time.monotonic(), cluster_cpu_s()
    try:
        asyncio.run(_apply(access, fleet))
        applied_s = time.monotonic() - began_s
        wait_for(lambda: _available(cluster, fleet) == fleet.services, limit_s, "all pods", interval_s=LOOK_S)
        available_s, used_s = time.monotonic() - began_s, cluster_cpu_s() - before_s
    finally:
        for name in fleet.namespaces:
            cluster.within(name).run("delete", "deployments,services", "--all", "--wait=false", timeout_s=120.0)
    return Floor(fleet.services, applied_s, available_s, used_s)


async def _apply(access: Access, fleet: Fleet) -> None:
    waiting = iter(range(fleet.services))

    async def some(api: kube.Kube) -> None:
        for number in waiting:
            for child in _children(number, fleet.namespaces[number % len(fleet.namespaces)]):
                await api.apply(child.ref.kind, _of_nobody(child))

    async with kube.connection(operator_access.Access(access.kubeconfig, access.context)) as api:
        await asyncio.gather(*(some(api) for _ in range(CREATED_AT_ONCE)))


def _children(number: int, namespace: str) -> list[Child]:
    body = service(number, namespace)
    body["metadata"].update(uid="none", generation=1)
    wanted = operator_service.parse(body, pins.newest(IMAGE))
    return list(children(wanted, plan.plan(wanted), frozenset()))


def _of_nobody(child: Child) -> dict[str, Any]:
    """The child as it would be, but of no InferenceService and seen by no operator."""
    metadata = {field: value for field, value in child.body["metadata"].items() if field != "ownerReferences"}
    labels = {**metadata["labels"], names.MANAGED_BY_LABEL: NOBODY}
    return {**child.body, "metadata": {**metadata, "labels": labels}}


def _available(cluster: Kubectl, fleet: Fleet) -> int:
    lines = cluster.run("get", "deployments", "--all-namespaces", "--no-headers", timeout_s=60.0).splitlines()
    rows = [line.split() for line in lines]
    return sum(row[0] in fleet.namespaces and row[2] == "1/1" for row in rows)
