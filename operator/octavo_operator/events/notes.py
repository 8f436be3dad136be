"""What of a reconcile is worth an Event. Pure.

The status is the memory: what it said before and says now differs where something happened, and only then. So a reconcile that is
repeated, by whichever operator, tells nothing twice.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from octavo_operator import apply, kinds, pod_reason
from octavo_operator.kinds import Ref

# Reasons of Ready that are told; those of a service on its way are told by what its pods wait for.
_ARRIVED = {"AllReady": "Ready", "Suspended": "Suspended", "ScaledToZero": "ScaledToZero"}
_TROUBLED = {"Contested", "Denied", "PodsRefused"}
# Words of pods' reasons that are no trouble.
_NO_TROUBLE = {"", "Draining", "Stopped", "Terminating", *pod_reason.PATIENT}
_WORDS = {"exit": "Exited", "Unknown": "Unreachable"}
# Conditions of features with the status that is trouble.
_TROUBLE = {
    "AutoscalingSignalReady": "False",
    "CapacityAvailable": "False",
    "Degraded": "True",
    "RolloutBlocked": "True",
    "RoutingReady": "False",
}
_WORKLOADS = {kinds.DEPLOYMENT, kinds.LEADER_WORKER_SET}


@dataclasses.dataclass(frozen=True)
class Note:
    """`reason` is one word for machines. `pod` names the pod that it is about, if it is about one."""

    type: Literal["Normal", "Warning"]
    reason: str
    text: str
    pod: str = ""


@dataclasses.dataclass(frozen=True)
class Write:
    """A child that was applied: what was desired, what was there before, and where the two differed."""

    ref: Ref
    desired: Mapping[str, Any]
    before: Mapping[str, Any] | None
    paths: Sequence[str]


def of_status(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    """What became different between two statuses of a service."""
    return [*_of_pods(before, after), *_of_ready(before, after), *_of_features(before, after)]


def of_write(write: Write, why: str) -> list[Note]:
    """What was done to a child, and to what others had done; `why` is the plan's sentence."""
    if write.before is None:
        return []
    if taken := apply.taken(write.desired, write.before):
        return [
            Note(
                "Warning", "PutBack", f"{manager} changed {_listed(paths)} of the {_called(write.ref)}; it was put back"
            )
            for manager, paths in taken.items()
        ]
    if write.ref.kind not in _WORKLOADS:
        return []
    notes = []
    numbers = [body["spec"].get("replicas") for body in (write.before, write.desired)]
    if "spec.replicas" in write.paths and None not in numbers:
        notes.append(Note("Normal", "Scaled", f"from {numbers[0]} to {numbers[1]} pods"))
    changed = [path for path in write.paths if ".template" in path.lower()]
    if changed:
        notes.append(Note("Normal", "RollingOut", f"the pods are replaced, for {_listed(changed)} changed; {why}"))
    return notes


def of_addition(ref: Ref, manager: str) -> Note:
    """Somebody set fields of a child that the operator leaves alone."""
    return Note(
        "Normal", "ForeignFields", f"{manager} set fields of the {_called(ref)}; they stay until it removes them"
    )


def _of_ready(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    now, was = _condition(after, "Ready"), _condition(before, "Ready")
    reason, stalled = now.get("reason", ""), _condition(after, "Stalled").get("status") == "True"
    if reason == was.get("reason") or not now:
        return []
    if reason in _ARRIVED:
        return [Note("Normal", _ARRIVED[reason], now["message"])]
    return [Note("Warning", reason, now["message"])] if stalled or reason in _TROUBLED else []


def _of_pods(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    """One note for all pods that came into the same trouble at the same time."""
    known = {pod["name"]: _trouble(pod) for pod in before.get("pods", ())}
    fresh: dict[str, list[Mapping[str, Any]]] = {}
    for pod in after.get("pods", ()):
        trouble = _trouble(pod)
        if trouble and known.get(pod["name"]) != trouble:
            fresh.setdefault(trouble, []).append(pod)
    notes = []
    for trouble, pods in fresh.items():
        first, others = pods[0], len(pods) - 1
        more = f" (and {others} more)" if others else ""
        notes.append(Note("Warning", trouble, f"{first['name']}{more}: {first['reason']}", first["name"]))
    return notes


def _of_features(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    notes = []
    for kind, trouble in _TROUBLE.items():
        was, now = _condition(before, kind).get("status"), _condition(after, kind)
        if now.get("status") == was or not now:
            continue
        if now["status"] == trouble:
            notes.append(Note("Warning", kind if trouble == "True" else now["reason"], now["message"]))
        elif was == trouble:
            notes.append(Note("Normal", f"{kind}Over" if trouble == "True" else kind, now["message"]))
    return notes


def _trouble(pod: Mapping[str, Any]) -> str:
    """The word for what is wrong with a pod of the status; empty where nothing is."""
    word = pod_reason.word(pod.get("reason", ""))
    return "" if word in _NO_TROUBLE else _WORDS.get(word, word)


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((entry for entry in status.get("conditions", ()) if entry["type"] == kind), {})


def _called(ref: Ref) -> str:
    return f"{ref.kind.kind} {ref.name}"


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:5])
    return f"{shown} and {len(paths) - 5} more" if len(paths) > 5 else shown
