"""Where the pods of a service stand in a rollout: which are of its Deployment's current template, and what place each has. Pure.

A ReplicaSet is current where its template is the Deployment's (its own hash label aside), which is the Deployment controller's own
rule: a template that comes back while it is being rolled out finds the pods again that it had.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from octavo_operator import apply, names, pod_reason
from octavo_operator.doubts import Refusal
from octavo_operator.observed import PodView, deployment_view
from octavo_operator.strategy import Standing

# The Deployment controller's: how many templates it has had.
_REVISION_ANNOTATION = "deployment.kubernetes.io/revision"

# What the API server and the scheduler say where pods of the service itself may be in the way of a new one.
_OVER_QUOTA = "exceeded quota"
_OF_OTHER_PODS = ("Insufficient ", "anti-affinity", "free ports", "topology spread", "ReadWriteOncePod")


def holds(live: Mapping[str, Any], template: Mapping[str, Any]) -> bool:
    """Whether the Deployment `live` has the pod template that is wanted; additions of others are theirs."""
    return apply.holds_template(live, template)


def is_uniform(live: Mapping[str, Any], pods: Iterable[PodView]) -> bool:
    """Whether the Deployment itself tells that all its pods are of its current template, so that ReplicaSets need no look.

    It does when its counts say so, and while it has had no other template; with Recreate the next one counts only once the pods of
    the last are gone.
    """
    hashes = [pod.template_hash for pod in pods if pod.active]
    if len(set(hashes)) > 1:
        return False
    first = live["metadata"].get("annotations", {}).get(_REVISION_ANNOTATION) == "1"
    if live["metadata"]["generation"] == 1 and (first or not hashes):
        return True  # its spec is as it was made, and it has taken over no pods of another
    counts = deployment_view(live)
    if not counts.settled:
        return False
    return (first and applied_strategy(live) != "Recreate") or counts.replicas == counts.updated == len(hashes)


@dataclasses.dataclass(frozen=True)
class Current:
    """The ReplicaSet of the Deployment's current template: its pods' hash, and how many it shall have."""

    template_hash: str
    replicas: int


def current(live: Mapping[str, Any], replica_sets: Iterable[Mapping[str, Any]]) -> Current | None:
    """None where there is none yet, so that all pods are old."""
    for each in replica_sets:
        template = each["spec"]["template"]
        if apply.controlled_by(each, live["metadata"]["uid"]) and _alike(template, live["spec"]["template"]):
            return Current(template["metadata"]["labels"][names.TEMPLATE_HASH_LABEL], each["spec"].get("replicas", 0))
    return None


def all_new(wanted: int, pods: Sequence[PodView]) -> Standing:
    """Where all pods are of the current template."""
    return _standing(wanted, [pod for pod in pods if pod.active], [], pods)


def all_old(wanted: int, pods: Sequence[PodView]) -> Standing:
    """Where a new template has been written a moment ago, or is about to be."""
    return _standing(wanted, [], [pod for pod in pods if pod.active], pods)


def mixed(wanted: int, pods: Sequence[PodView], of: Current) -> Standing:
    """Pods that the ReplicaSet shall have and could not make so far are new pods without a place."""
    active = [pod for pod in pods if pod.active]
    new = [pod for pod in active if pod.template_hash == of.template_hash]
    old = [pod for pod in active if pod.template_hash != of.template_hash]
    found = _standing(wanted, new, old, pods)
    return dataclasses.replace(found, new=found.new + (None,) * max(0, of.replicas - len(new)))


def _standing(wanted: int, new: Sequence[PodView], old: Sequence[PodView], pods: Sequence[PodView]) -> Standing:
    return Standing(
        wanted=wanted,
        old=tuple(pod.place for pod in old),
        new=tuple(pod.place for pod in new),
        ending=sum(pod.ending for pod in pods),
    )


def marked(wanted: int, pods: Sequence[PodView], revision: str) -> Standing:
    """Where pods are marked with the revision of their template, as those of groups are; `wanted` counts pods."""
    active = [pod for pod in pods if pod.active]
    new = [pod for pod in active if pod.revision == revision]
    return _standing(wanted, new, [pod for pod in active if pod.revision != revision], pods)


def failure(live: Mapping[str, Any]) -> str:
    """What the API server said of a pod that the workload could not make."""
    return deployment_view(live).failure


def refusal(failure: str, pods: Sequence[PodView], standing: Standing) -> Refusal:
    """What keeps new pods from being made or placed; maybe it is what the service's own old pods hold."""
    if _OVER_QUOTA in failure:
        return Refusal(failure, standing.waiting)
    said = [pod.refusal for pod in pods if pod.active and pod.refusal]
    of_pods = sum(any(words in each for words in _OF_OTHER_PODS) for each in said)
    return Refusal(said[0] if said else "", min(standing.waiting, of_pods)) if standing.waiting else Refusal()


def failing(pods: Sequence[PodView], of: Current | None) -> str:
    """What the first pod of the current template that fails, fails of. `of` is None where all pods are."""
    for pod in sorted(pods, key=lambda pod: pod.name):
        new = of is None or pod.template_hash == of.template_hash
        if pod.active and new and not pod.ready and pod.place and pod_reason.word(pod.reason) not in pod_reason.PATIENT:
            return f"{pod.name}: {pod.reason}"
    return ""


def applied_strategy(live: Mapping[str, Any]) -> str:
    """The name of the strategy that the Deployment has now."""
    found = live["spec"].get("strategy", {})
    if found.get("type") == "Recreate":
        return "Recreate"
    return "Surge" if found.get("rollingUpdate", {}).get("maxSurge") else "OneByOne"


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: Mapping[str, Any]) -> dict[str, Any]:
    metadata = template.get("metadata", {})
    labels = {label: value for label, value in metadata.get("labels", {}).items() if label != names.TEMPLATE_HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}
