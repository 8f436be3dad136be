"""From what is known of a service's model to what happens with its pods: made, or kept waiting. Pure.

Pods of which it is not known whether they fit wait for the inspection, for two minutes at most; pods that do not fit are not made.
Pods that are there are never touched by this: a workload that waits stays as it is.
"""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from octavo_operator import kinds
from octavo_operator.conditions import Condition, Withheld
from octavo_operator.desired import pod
from octavo_operator.desired.children import Child
from octavo_operator.desired.inspect import digest, inspection_job, inspection_pod, job_name
from octavo_operator.fitting import verdict
from octavo_operator.fitting.findings import ASKS_S, Question, scope_of
from octavo_operator.fitting.gpu_memory import GpuMemory
from octavo_operator.fitting.inspections import Insight, record
from octavo_operator.fitting.verdict import CONDITION, INSPECTING, Verdict
from octavo_operator.fitting.workload import limit_of, makes, pod_spec, runtime_container
from octavo_operator.observed import Observed
from octavo_operator.plan import Plan
from octavo_operator.quantity import canonical
from octavo_operator.service import Service
from octavo_operator.status import Problem, Progress
from octavo_sizing.errors import SizingError
from octavo_sizing.limit import cpu_limit_bytes

PATIENCE_S = 120.0


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What decides beside the spec: what is known of the model, and whether this service `asks` for what is not; its live workload
    and how many of its pods are ready; the memory of GPUs that they may come to; and how long it has waited."""

    found: Insight
    asks: bool = True
    workload: Mapping[str, Any] | None = None
    ready: int = 0
    gpu_memory: GpuMemory | None = None
    waited_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Judgement:
    """`service`: with the model's revision and its pods' memory, where those are known now and it is not served without already.

    `verdict` None: nobody asked. `changes`: whether it makes pods that there are none of yet. `job` finds out what is not known.
    `left_s`: how long pods wait for it at most.
    """

    service: Service
    verdict: Verdict | None = None
    inspection: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    changes: bool = False
    job: Child | None = None
    left_s: float = 0.0
    asked_elsewhere: bool = False

    def holds(self, step: Plan) -> bool:
        """Whether no pods are made for now."""
        denied = self.verdict is not None and self.verdict.fits is False
        return self.changes and step.replicas > 0 and (denied or self.left_s > 0)

    def children(self, wanted: Sequence[Child], step: Plan) -> list[Child]:
        """The service's children with the workload held back, where it is, and the Job."""
        held = [dataclasses.replace(child, held=child.is_workload and self.holds(step)) for child in wanted]
        return held if self.job is None else [*held, self.job]

    def look_again_s(self, step: Plan) -> float | None:
        """Where another service's Job finds it out, it may come to nothing."""
        due = ([ASKS_S] if self.asked_elsewhere else []) + ([self.left_s] if self.holds(step) and self.left_s else [])
        return min(due, default=None)

    def problem(self, step: Plan) -> Problem | None:
        """Why nothing but a change of the spec makes pods."""
        if self.verdict is None or self.verdict.fits is not False or not self.holds(step):
            return None
        return Problem(self.verdict.reason, self.verdict.message, spec_valid=True)

    def obstacle(self, step: Plan) -> Progress | None:
        """What pods wait for, while they do."""
        if self.verdict is None or not self.holds(step):
            return None
        return Progress(False, self.verdict.reason, self.verdict.message)

    def withheld(self, step: Plan) -> Withheld | None:
        """What the condition RolloutBlocked says of it."""
        if self.verdict is None or not self.holds(step):
            return None
        return Withheld(self.verdict.reason, self.verdict.message, for_good=self.verdict.fits is False)

    def beside(self, seen: Observed) -> "Judgement":
        """With what the service's ready pods report of their blocks, once all are of this spec."""
        counts = seen.deployment
        if self.verdict is None or self.changes or counts is None or counts.updated != counts.replicas:
            return self
        reported = [pod.blocks_total for pod in seen.pods if pod.ready and pod.blocks_total is not None]
        return dataclasses.replace(self, verdict=verdict.against(self.verdict, min(reported, default=None)))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return () if self.verdict is None else (self.verdict.condition,)

    @property
    def fields(self) -> dict[str, Any]:
        """Of the status."""
        found = {"inspection": self.inspection, "sizing": {} if self.verdict is None else self.verdict.sizing}
        return {name: value for name, value in found.items() if value}


def question(service: Service) -> Question:
    """What there is to find out about the service's model."""
    serving = pod.template(service)["spec"]
    inspecting = inspection_pod(serving, runtime_container(serving))
    return Question(inspecting, digest(inspecting), scope_of(inspecting, service.key.namespace))


def judge(service: Service, asked: Question, evidence: Evidence) -> Judgement:
    found = evidence.found
    template = pod.template(service)
    changes = not makes(evidence.workload, template)
    if changes:  # else it is served as it is already
        service = limited(pinned(service, found), found, evidence.workload)
        template = pod.template(service)
        changes = not makes(evidence.workload, template)
    says = verdict.judge(service, template["spec"], found, evidence.gpu_memory, job_name(service.key, found.key))
    if evidence.ready and not changes:
        says = verdict.proven(says)
    is_open = found.inspection is None
    return Judgement(
        service=service,
        verdict=says,
        inspection=record(found),
        changes=changes,
        job=Child(kinds.JOB, inspection_job(service, asked.pod)) if is_open and evidence.asks else None,
        left_s=max(0.0, PATIENCE_S - evidence.waited_s) if says.reason == INSPECTING else 0.0,
        asked_elsewhere=is_open and not evidence.asks,
    )


def pinned(service: Service, found: Insight) -> Service:
    """`service` with the commit that its model's branch or tag stood for when it was inspected."""
    hub = service.model.source.hub
    if hub is None or found.inspection is None or found.inspection.revision is None:
        return service
    source = dataclasses.replace(service.model.source, hub=f"{hub.partition('@')[0]}@{found.inspection.revision}")
    return dataclasses.replace(service, model=dataclasses.replace(service.model, source=source))


def limited(service: Service, found: Insight, live: Mapping[str, Any] | None) -> Service:
    """`service` on CPUs, where nobody says how much memory its pods get, with what they need; those of `live` keep theirs."""
    spec = pod.template(service)["spec"]
    if service.pin.renderer == "v1":
        return service  # pods of the first generation had no limit then
    if service.device != "cpu" or found.inspection is None or limit_of(spec) is not None:
        return service
    before = None if live is None else limit_of(pod_spec(live))
    if before is not None and makes(live, pod.template(kept := _with_memory(service, before))):
        return kept
    try:
        size_bytes = cpu_limit_bytes(found.inspection.model, verdict.setup_of(service, spec))
    except SizingError:
        return service  # the verdict says it
    return _with_memory(service, canonical(f"{size_bytes >> 20}Mi"))


def _with_memory(service: Service, memory: str) -> Service:
    return dataclasses.replace(service, resources=dataclasses.replace(service.resources, memory=memory))


def waited_s(status: Mapping[str, Any], now: datetime.datetime) -> float:
    """Seconds since the condition says that the model is being inspected; 0 where it does not."""
    for condition in status.get("conditions", ()):
        if (condition["type"], condition["reason"]) == (CONDITION, INSPECTING):
            since = datetime.datetime.fromisoformat(condition["lastTransitionTime"])
            return max(0.0, (now - since).total_seconds())
    return 0.0


def kept(status: Mapping[str, Any]) -> dict[str, Any]:
    """What of the status stays where nothing else can be said."""
    return {"inspection": status["inspection"]} if status.get("inspection") else {}
