"""Nodes as the scheduler sees them, and whether one is open to a pod: ready, not cordoned, labels and taints. Pure.

What depends on other pods (their affinity, topology spread, host ports) and on volumes is left to the scheduler.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from octavo_operator.capacity.amounts import Amounts, parsed

_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclasses.dataclass(frozen=True)
class Node:
    """`allocatable` is what its pods may ask for together."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    cordoned: bool
    ready: bool
    allocatable: Amounts


def node(live: Mapping[str, Any]) -> Node:
    metadata, spec, status = live["metadata"], live.get("spec", {}), live.get("status", {})
    return Node(
        name=metadata["name"],
        labels=metadata.get("labels", {}),
        taints=tuple(spec.get("taints", ())),
        cordoned=spec.get("unschedulable", False),
        ready=any(
            condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions", ())
        ),
        allocatable=parsed(status.get("allocatable", {})),
    )


def objection(node: Node, pod: Mapping[str, Any]) -> str:
    """Why no pod with the spec `pod` comes to `node`, in a word or two; empty where it may."""
    if not node.ready:
        return "not ready"
    tolerations = pod.get("tolerations", ())
    if node.cordoned and not _tolerated(_CORDON, tolerations):
        return "cordoned"
    if any(
        taint["effect"] in ("NoSchedule", "NoExecute") and not _tolerated(taint, tolerations) for taint in node.taints
    ):
        return "tainted"
    if any(node.labels.get(label) != value for label, value in pod.get("nodeSelector", {}).items()):
        return "without the labels"
    return "" if _required(node, pod) else "without the labels"


def _tolerated(taint: Mapping[str, str], tolerations: Sequence[Mapping[str, Any]]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    """A toleration without effect or (with Exists) without key is for all of them; operators unknown here tolerate nothing."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    operator, key = toleration.get("operator", "Equal"), toleration.get("key")
    if not key:
        return bool(operator == "Exists")
    if key != taint["key"]:
        return False
    same = toleration.get("value", "") == taint.get("value", "")
    return bool(operator == "Exists" or (operator == "Equal" and same))


def _required(node: Node, pod: Mapping[str, Any]) -> bool:
    """Whether one of the required terms of the pod's node affinity holds, or there are none."""
    affinity = pod.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(_term(node, term) for term in required.get("nodeSelectorTerms", ()))


def _term(node: Node, term: Mapping[str, Any]) -> bool:
    """All of its expressions; a term without any matches no node."""
    labels = [(node.labels.get(one["key"]), one) for one in term.get("matchExpressions", ())]
    fields = [({"metadata.name": node.name}.get(one["key"]), one) for one in term.get("matchFields", ())]
    return bool(labels or fields) and all(_holds(value, one) for value, one in labels + fields)


def _holds(value: str | None, expression: Mapping[str, Any]) -> bool:
    test = _OPERATORS.get(expression["operator"])
    return test is not None and test(value, expression.get("values", ()))


_OPERATORS: dict[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: _number(value) is not None and int(value or 0) > int(values[0]),
    "Lt": lambda value, values: _number(value) is not None and int(value or 0) < int(values[0]),
}


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.lstrip("-").isdigit() else None
