"""An InferenceService's status from what was seen. Pure; written only where it differs from the live one.

Conditions as kstatus reads them: `Reconciling` while on the way, `Stalled` only where nothing but a change of the spec (or of an
object in the way) helps, never both.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator import groups
from octavo_operator.conditions import Condition
from octavo_operator.desired import labels, pod
from octavo_operator.desired.service import url
from octavo_operator.observed import DeploymentView, Observed, PodView, worst_first
from octavo_operator.plan import Plan
from octavo_operator.reports import NOTHING, Report
from octavo_operator.service import Key, Service

MAX_PODS = 32
MESSAGE_LENGTH = 1024


@dataclasses.dataclass(frozen=True)
class Problem:
    """Why nothing goes on without a change: `reason` is the condition's word. `spec_valid` where the spec is not what is wrong."""

    reason: str
    message: str
    spec_valid: bool = False


_NOT_STALLED = Condition.of("Stalled", False, "NotStalled", "nothing is in the way for good")
_VALID = Condition.of("SpecValid", True, "Valid", "the spec can be served")


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a service stands: `done` when every desired pod is updated and ready and no other is left (at zero, none that ends)."""

    done: bool
    reason: str
    message: str


def serving(
    service: Service, plan: Plan, observed: Observed, report: Report = NOTHING, obstacle: Progress | None = None
) -> dict[str, Any]:
    """The status of a service whose children were applied, as far as there is no `obstacle` to it."""
    progress = obstacle or measure(service, plan, observed)
    ready = observed.deployment.ready if observed.deployment else 0
    conditions = [
        Condition.of("Ready", progress.done, progress.reason, progress.message),
        _available(ready),
        Condition.of("Reconciling", not progress.done, progress.reason, progress.message),
        _NOT_STALLED,
        _VALID,
    ]
    common = _common(service.key, service.generation, observed, conditions, report)
    return {"revision": pod.revision(service), "runtimeImage": service.runtime.image, **common}


def contested(complaint: str) -> Progress | None:
    """What keeps a service whose children others keep changing; `complaint` is empty where nobody does."""
    return Progress(False, "Contested", complaint) if complaint else None


def stalled(live: Mapping[str, Any], problem: Problem, observed: Observed, report: Report = NOTHING) -> dict[str, Any]:
    """The status of a service that cannot go on; pods of an earlier spec may still answer."""
    ready = observed.deployment.ready if observed.deployment else 0
    conditions = [
        Condition.of("Ready", False, problem.reason, problem.message),
        _available(ready),
        Condition.of("Reconciling", False, problem.reason, problem.message),
        Condition.of("Stalled", True, problem.reason, problem.message),
        _VALID if problem.spec_valid else Condition.of("SpecValid", False, problem.reason, problem.message),
    ]
    return _common(_key(live), live["metadata"]["generation"], observed, conditions, report)


def denied(live: Mapping[str, Any], message: str, observed: Observed, report: Report = NOTHING) -> dict[str, Any]:
    """The status of a service whose children could not be written; the operator tries again."""
    ready = observed.deployment.ready if observed.deployment else 0
    conditions = [
        Condition.of("Ready", False, "Denied", message),
        _available(ready),
        Condition.of("Reconciling", True, "Denied", message),
        _NOT_STALLED,
        _VALID,
    ]
    return _common(_key(live), live["metadata"]["generation"], observed, conditions, report)


def measure(service: Service, plan: Plan, observed: Observed) -> Progress:
    """How far the rollout is, and what it waits for."""
    deployment = observed.deployment
    if deployment is None:
        return _without_workload(service, observed)
    if not deployment.settled:
        return Progress(False, "Applying", "waiting for the Deployment's controller to act on the new spec")
    wanted, unit = plan.replicas, groups.unit(service)
    if deployment.failure:
        return Progress(False, "PodsRefused", f"pods cannot be made: {deployment.failure}")
    if deployment.replicas == deployment.updated == deployment.ready == wanted:
        return _arrived(service, wanted, observed.pods)
    reason, message = _under_way(deployment, wanted, unit)
    return Progress(False, reason, message + _first_obstacle(observed.pods))


def merged(live: Mapping[str, Any], desired: dict[str, Any], now: str) -> dict[str, Any] | None:
    """`desired` with the times of its conditions, or None where `live` already says it. `now` is RFC 3339."""
    before = {condition["type"]: condition for condition in live.get("conditions", ())}
    for condition in desired["conditions"]:
        known = before.get(condition["type"])
        unchanged = known is not None and known["status"] == condition["status"]
        condition["lastTransitionTime"] = known["lastTransitionTime"] if known is not None and unchanged else now
    return None if desired == live else desired


def _without_workload(service: Service, observed: Observed) -> Progress:
    if (lacking := groups.lacking(service, observed.served)) is not None:
        return Progress(False, *lacking)
    return Progress(False, "Replacing", f"waiting for an earlier {service.workload_kind.kind} of this name to be gone")


def _under_way(deployment: DeploymentView, wanted: int, unit: str) -> tuple[str, str]:
    """Reason and message of a rollout that is not there yet."""
    if deployment.updated < wanted:
        return "RollingOut", f"{_count(wanted, unit)} wanted, {deployment.updated} of the current spec"
    if deployment.updated == wanted < deployment.replicas and deployment.ready < deployment.replicas:
        return (
            "PodsNotReady",
            f"the {unit}s of the current spec are not all ready; those of the earlier one stay until they are",
        )
    if deployment.replicas > wanted:
        left = deployment.replicas - wanted
        return "Draining", f"{_count(left, unit)} still to be stopped"
    return "PodsNotReady", f"{_count(wanted, unit)} wanted, {deployment.ready} ready"


def _arrived(service: Service, wanted: int, pods: tuple[PodView, ...]) -> Progress:
    # A Deployment does not count pods that end; one that is still seen ready is about to.
    if wanted == 0 and (left := sum(pod.ending or pod.ready for pod in pods)):
        return Progress(
            False, "Draining", f"{left} pods finish their requests" if left > 1 else "1 pod finishes its requests"
        )
    if service.suspend:
        return Progress(True, "Suspended", "spec.suspend is true: no pods run")
    if wanted == 0:
        return Progress(True, "ScaledToZero", "spec.replicas is 0: no pods run")
    unit = groups.unit(service)
    return Progress(True, "AllReady", f"all {wanted} {unit}s are ready" if wanted > 1 else f"the {unit} is ready")


def _count(count: int, unit: str) -> str:
    return f"1 {unit}" if count == 1 else f"{count} {unit}s"


def _first_obstacle(pods: tuple[PodView, ...]) -> str:
    for found in worst_first(pods):
        if not found.ready:
            return f"; {found.name}: {found.reason}"
    return ""


def _available(ready: int) -> Condition:
    if ready:
        return Condition.of("Available", True, "PodsReady", f"{ready} pods answer" if ready > 1 else "1 pod answers")
    return Condition.of("Available", False, "NoPodReady", "no pod answers")


def _key(live: Mapping[str, Any]) -> Key:
    return Key(live["metadata"]["namespace"], live["metadata"]["name"])


def _common(
    key: Key, generation: int, observed: Observed, conditions: list[Condition], report: Report
) -> dict[str, Any]:
    return {
        **_counts(observed),
        "selector": ",".join(f"{label}={value}" for label, value in labels.serving_selector(key).items()),
        "url": url(key),
        **_pods(observed.pods),
        **(observed.degraded.fields if observed.degraded else {}),
        **report.fields,
        **_conditions([*conditions, *_degraded(observed), *report.conditions], generation),
    }


def _degraded(observed: Observed) -> list[Condition]:
    return [observed.degraded.condition] if observed.degraded else []


def _counts(observed: Observed) -> dict[str, Any]:
    deployment = observed.deployment
    if deployment is None:
        return {"replicas": 0, "readyReplicas": 0, "updatedReplicas": 0}
    return {
        "replicas": deployment.replicas,
        "readyReplicas": deployment.ready,
        "updatedReplicas": deployment.updated,
    }


def _pods(pods: tuple[PodView, ...]) -> dict[str, Any]:
    shown = worst_first(pods)[:MAX_PODS]
    status: dict[str, Any] = {}
    if shown:
        status["pods"] = [_shown(found) for found in shown]
    if len(pods) > MAX_PODS:
        status["podsOmitted"] = len(pods) - MAX_PODS
    return status


def _shown(found: PodView) -> dict[str, Any]:
    fields = {
        "phase": found.phase or None,
        "pressureLevel": found.pressure_level,
        "blocksTotal": found.blocks_total,
        "reason": found.reason or None,
    }
    return {"name": found.name, **{field: value for field, value in fields.items() if value is not None}}


def _conditions(conditions: list[Condition], generation: int) -> dict[str, Any]:
    return {
        "observedGeneration": generation,
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "observedGeneration": generation,
                "reason": condition.reason,
                "message": condition.message[:MESSAGE_LENGTH],
            }
            for condition in conditions
        ],
    }
