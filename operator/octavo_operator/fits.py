"""What is asked before a service's pods are made: does its model fit? Reads the memory of nodes' GPUs where the spec does not say
it; what follows is pure (`fitting.judgement`)."""

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from octavo_operator.desired import pod
from octavo_operator.fitting import gpu_memory, judgement
from octavo_operator.fitting.findings import Findings, Question
from octavo_operator.fitting.gpu_memory import GpuMemory
from octavo_operator.fitting.inspections import Insight, InspectionView, insight
from octavo_operator.fitting.judgement import Evidence, Judgement
from octavo_operator.inventory import Inventory
from octavo_operator.observed import Observed
from octavo_operator.service import Key, Service


class Fits:
    """`inspections_of` gives the pods that inspect a service's model, as they are watched; `look_at` is told of services that may
    go on. Without `inspects` nobody asks."""

    def __init__(
        self,
        inventory: Inventory,
        inspections_of: Callable[[Key], Sequence[InspectionView]],
        look_at: Callable[[Key], None],
        inspects: bool,
    ) -> None:
        self._inventory = inventory
        self._inspects = inspects
        self._inspections_of = inspections_of
        self._findings = Findings(time.monotonic, look_at)

    async def judge(self, service: Service, status: Mapping[str, Any], seen: Observed) -> Judgement:
        """Raises UnavailableError."""
        if not self._inspects:
            return Judgement(service)
        asked = judgement.question(service)
        found, asks = self._find(service.key, asked, status)
        evidence = Evidence(
            found=found,
            asks=asks,
            workload=seen.workload,
            ready=seen.deployment.ready if seen.deployment else 0,
            gpu_memory=await self._gpu_memory(service),
            waited_s=judgement.waited_s(status, datetime.datetime.now(datetime.UTC)),
        )
        return judgement.judge(service, asked, evidence)

    def forget(self, key: Key) -> None:
        """The service is no more."""
        self._findings.forget(key)

    def _find(self, key: Key, asked: Question, status: Mapping[str, Any]) -> tuple[Insight, bool]:
        """What is known of the model, and whether this service is the one to find out."""
        views = self._inspections_of(key)
        own, news = insight(asked.key, status, views), insight(asked.key, {}, views)
        if news.inspection is not None:
            self._findings.learn(asked, news.inspection)
        elif news.error:
            self._findings.failed(asked)
        if own.inspection is not None or own.error:
            return own, True
        if (answer := self._findings.answer(asked)) is not None:
            return Insight(asked.key, answer), True
        return own, self._findings.asks(asked, key)

    async def _gpu_memory(self, service: Service) -> GpuMemory | None:
        """None where the spec says it, or nobody does."""
        if service.device != "gpu" or service.gpu.memory is not None:
            return None
        census = await self._inventory.census()
        if census is None:
            return None
        return gpu_memory.labelled(census.nodes, pod.template(service)["spec"], service.gpu.resource)
