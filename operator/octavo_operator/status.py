"""An InferenceService's status from what was seen. Pure; written only where it differs from the live one.

Conditions as kstatus reads them: `Reconciling` while on the way, `Stalled` only where nothing but a change of the spec (or of an
object in the way) helps, never both.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator.desired import labels
from octavo_operator.desired.service import url
from octavo_operator.observed import Observed, PodView, worst_first
from octavo_operator.plan import Plan
from octavo_operator.service import Key, Service

MAX_PODS = 32
MESSAGE_LENGTH = 1024


@dataclasses.dataclass(frozen=True)
class Problem:
    """Why nothing goes on without a change: `reason` is the condition's word. `spec_valid` where the spec is not what is wrong."""

    reason: str
    message: str
    spec_valid: bool = False


@dataclasses.dataclass(frozen=True)
class Condition:
    type: str
    status: str
    reason: str
    message: str

    @classmethod
    def of(cls, kind: str, holds: bool, reason: str, message: str) -> "Condition":
        return cls(kind, "True" if holds else "False", reason, message)


_NOT_STALLED = Condition.of("Stalled", False, "NotStalled", "nothing is in the way for good")
_VALID = Condition.of("SpecValid", True, "Valid", "the spec can be served")


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a service stands: `done` when every desired pod is updated and ready and no other is left."""

    done: bool
    reason: str
    message: str


def serving(service: Service, plan: Plan, observed: Observed) -> dict[str, Any]:
    """The status of a service whose children were applied."""
    progress = measure(service, plan, observed)
    ready = observed.deployment.ready if observed.deployment else 0
    conditions = [
        Condition.of("Ready", progress.done, progress.reason, progress.message),
        _available(ready),
        Condition.of("Reconciling", not progress.done, progress.reason, progress.message),
        _NOT_STALLED,
        _VALID,
    ]
    return {"runtimeImage": service.runtime.image, **_common(service.key, service.generation, observed, conditions)}


def stalled(live: Mapping[str, Any], problem: Problem, observed: Observed) -> dict[str, Any]:
    """The status of a service that cannot go on; pods of an earlier spec may still answer."""
    ready = observed.deployment.ready if observed.deployment else 0
    conditions = [
        Condition.of("Ready", False, problem.reason, problem.message),
        _available(ready),
        Condition.of("Reconciling", False, problem.reason, problem.message),
        Condition.of("Stalled", True, problem.reason, problem.message),
        _VALID if problem.spec_valid else Condition.of("SpecValid", False, problem.reason, problem.message),
    ]
    return _common(_key(live), live["metadata"]["generation"], observed, conditions)


def denied(live: Mapping[str, Any], message: str, observed: Observed) -> dict[str, Any]:
    """The status of a service whose children could not be written; the operator tries again."""
    ready = observed.deployment.ready if observed.deployment else 0
    conditions = [
        Condition.of("Ready", False, "Denied", message),
        _available(ready),
        Condition.of("Reconciling", True, "Denied", message),
        _NOT_STALLED,
        _VALID,
    ]
    return _common(_key(live), live["metadata"]["generation"], observed, conditions)


def measure(service: Service, plan: Plan, observed: Observed) -> Progress:
    """How far the rollout is, and what it waits for."""
    deployment = observed.deployment
    if deployment is None:
        return Progress(False, "Replacing", "waiting for an earlier Deployment of this name to be gone")
    if not deployment.settled:
        return Progress(False, "Applying", "waiting for the Deployment's controller to act on the new spec")
    wanted = plan.replicas
    if deployment.failure:
        return Progress(False, "PodsRefused", f"pods cannot be made: {deployment.failure}")
    if deployment.replicas == deployment.updated == deployment.ready == wanted:
        return _arrived(service, wanted)
    if deployment.updated < wanted:
        reason, message = "RollingOut", f"{deployment.updated} of {wanted} pods are of the current spec"
    elif deployment.replicas > wanted:
        left = deployment.replicas - wanted
        reason, message = (
            "Draining",
            f"{left} pods are still to be stopped" if left > 1 else "1 pod is still to be stopped",
        )
    else:
        reason, message = "PodsNotReady", f"{deployment.ready} of {wanted} pods are ready"
    return Progress(False, reason, message + _first_obstacle(observed.pods))


def merged(live: Mapping[str, Any], desired: dict[str, Any], now: str) -> dict[str, Any] | None:
    """`desired` with the times of its conditions, or None where `live` already says it. `now` is RFC 3339."""
    before = {condition["type"]: condition for condition in live.get("conditions", ())}
    for condition in desired["conditions"]:
        known = before.get(condition["type"])
        unchanged = known is not None and known["status"] == condition["status"]
        condition["lastTransitionTime"] = known["lastTransitionTime"] if known is not None and unchanged else now
    return None if desired == live else desired


def _arrived(service: Service, wanted: int) -> Progress:
    if service.suspend:
        return Progress(True, "Suspended", "spec.suspend is true: no pods run")
    if wanted == 0:
        return Progress(True, "ScaledToZero", "spec.replicas is 0: no pods run")
    return Progress(True, "AllReady", f"all {wanted} pods are ready" if wanted > 1 else "the pod is ready")


def _first_obstacle(pods: tuple[PodView, ...]) -> str:
    for pod in worst_first(pods):
        if not pod.ready:
            return f"; {pod.name}: {pod.reason}"
    return ""


def _available(ready: int) -> Condition:
    if ready:
        return Condition.of("Available", True, "PodsReady", f"{ready} pods answer" if ready > 1 else "1 pod answers")
    return Condition.of("Available", False, "NoPodReady", "no pod answers")


def _key(live: Mapping[str, Any]) -> Key:
    return Key(live["metadata"]["namespace"], live["metadata"]["name"])


def _common(key: Key, generation: int, observed: Observed, conditions: list[Condition]) -> dict[str, Any]:
    return {
        **_counts(observed),
        "selector": ",".join(f"{label}={value}" for label, value in labels.pod_selector(key).items()),
        "url": url(key),
        **_pods(observed.pods),
        **_conditions(conditions, generation),
    }


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
        status["pods"] = [{"name": pod.name, **({"reason": pod.reason} if pod.reason else {})} for pod in shown]
    if len(pods) > MAX_PODS:
        status["podsOmitted"] = len(pods) - MAX_PODS
    return status


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
