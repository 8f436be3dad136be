"""What is asked before a service's pods are made: does its model fit? Reads the memory of nodes' GPUs where the spec does not say
it; what follows is pure (`fitting.judgement`)."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from octavo_operator.desired import pod
from octavo_operator.fitting import gpu_memory, judgement
from octavo_operator.fitting.gpu_memory import GpuMemory
from octavo_operator.fitting.inspections import InspectionView
from octavo_operator.fitting.judgement import Evidence, Judgement
from octavo_operator.inventory import Inventory
from octavo_operator.observed import Observed
from octavo_operator.service import Key, Service


class Fits:
    """`inspections_of` gives the pods that inspect a service's model, as they are watched."""

    def __init__(self, inventory: Inventory, inspections_of: Callable[[Key], Sequence[InspectionView]]) -> None:
        self._inventory = inventory
        self._inspections_of = inspections_of

    async def judge(self, service: Service, status: Mapping[str, Any], seen: Observed) -> Judgement:
        """Raises UnavailableError."""
        evidence = Evidence(
            status=status,
            inspections=self._inspections_of(service.key),
            workload=seen.workload,
            ready=seen.deployment.ready if seen.deployment else 0,
            gpu_memory=await self._gpu_memory(service),
            waited_s=judgement.waited_s(status, datetime.datetime.now(datetime.UTC)),
        )
        return judgement.judge(service, evidence)

    async def _gpu_memory(self, service: Service) -> GpuMemory | None:
        """None where the spec says it, or nobody does."""
        if service.device != "gpu" or service.gpu.memory is not None:
            return None
        census = await self._inventory.census()
        if census is None:
            return None
        return gpu_memory.labelled(census.nodes, pod.template(service)["spec"], service.gpu.resource)
