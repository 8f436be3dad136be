"""What was seen of a service's children, as small values. Pure: from API objects, without I/O."""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from octavo_operator import names, pod_reason
from octavo_operator.autoscaling import Signal
from octavo_operator.capacity.room import Tenant, tenant
from octavo_operator.kinds import Kind, Ref
from octavo_operator.state.degradation import Verdict


@dataclasses.dataclass(frozen=True)
class PodView:
    """A pod. `reason` says what it waits for or died of, empty where it is ready.

    `running`: the runtime's container runs, so that its `/state` can be read at `ip`; `started`: it has answered a probe;
    `failed`: it ended by itself and does not run now; `serving`: it takes requests, once ready (the other pods of a group of
    several nodes never do). `deletion_cost` is the annotation that ReplicaSets read, None where there is none;
    `cost_is_foreign` where others than the operator own it. `start_s` is how many seconds it took to become ready, None where it
    is not. What its `/state` says is added by `state.shown`: `phase` is empty where nothing is known, `pressure_level` and
    `blocks_total` are None.

    `template_hash` is its ReplicaSet's, `place` what it holds of which node, None where it has none; `refusal` what the scheduler
    says then. `active`: it counts as one of its ReplicaSet's pods, neither ending nor ended.
    """

    name: str
    ready: bool
    ending: bool
    reason: str
    uid: str = ""
    ip: str = ""
    running: bool = False
    started: bool = False
    failed: bool = False
    serving: bool = True
    deletion_cost: str | None = None
    cost_is_foreign: bool = False
    phase: str = ""
    pressure_level: int | None = None
    blocks_total: int | None = None
    revision: str = ""
    start_s: float | None = None
    template_hash: str = ""
    place: Tenant | None = None
    active: bool = True
    refusal: str = ""


@dataclasses.dataclass(frozen=True)
class DeploymentView:
    """Counts of a Deployment's pods; `settled` when its controller has seen the current spec."""

    settled: bool
    replicas: int = 0
    updated: int = 0
    ready: int = 0
    failure: str = ""


@dataclasses.dataclass(frozen=True)
class ChildView:
    """A child as it is watched: enough to know whether it is of a service's and to delete it. `controller` is its owner's uid."""

    ref: Ref
    uid: str
    controller: str
    ending: bool


@dataclasses.dataclass(frozen=True)
class Observed:
    """`workload` is what makes the pods; `children` holds all live children that belong to the service, as they are after what was
    written to them; `served` the optional kinds that the API server knows; `degraded` what the pods say of memory pressure;
    `signal` the way from the pods to their autoscaler.
    """

    deployment: DeploymentView | None = None
    pods: tuple[PodView, ...] = ()
    children: Mapping[Ref, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    served: frozenset[Kind] = frozenset()
    workload: Mapping[str, Any] | None = None
    degraded: Verdict | None = None
    signal: Signal | None = None


def deployment_view(live: Mapping[str, Any]) -> DeploymentView:
    metadata, status = live["metadata"], live.get("status", {})
    return DeploymentView(
        settled=status.get("observedGeneration", 0) >= metadata["generation"],
        replicas=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("readyReplicas", 0),
        failure=pod_reason.condition(status, "ReplicaFailure", "True").get("message", ""),
    )


def child_view(kind: Kind, live: Mapping[str, Any]) -> ChildView:
    metadata = live["metadata"]
    controllers = [owner["uid"] for owner in metadata.get("ownerReferences", ()) if owner.get("controller")]
    return ChildView(
        ref=Ref(kind, metadata["name"]),
        uid=metadata["uid"],
        controller=controllers[0] if controllers else "",
        ending="deletionTimestamp" in metadata,
    )


def pod_view(live: Mapping[str, Any]) -> PodView:
    metadata, status = live["metadata"], live.get("status", {})
    ending = "deletionTimestamp" in metadata
    container = pod_reason.runtime(status.get("containerStatuses", ())) or {}
    state = container.get("state", {})
    died = bool(pod_reason.death(container))
    return PodView(
        name=metadata["name"],
        ready=bool(pod_reason.condition(status, "Ready", "True")) and not ending,
        ending=ending,
        reason=pod_reason.reason(live),
        uid=metadata.get("uid", ""),
        ip=status.get("podIP", ""),
        running="running" in state,
        started=bool(container.get("started")),
        failed=status.get("phase") == "Failed" or (died and "running" not in state),
        serving=metadata.get("labels", {}).get(names.SERVING_LABEL) == "true",
        deletion_cost=metadata.get("annotations", {}).get(names.DELETION_COST_ANNOTATION),
        revision=metadata.get("annotations", {}).get(names.REVISION_ANNOTATION, ""),
        start_s=_start_s(status),
        template_hash=metadata.get("labels", {}).get(names.TEMPLATE_HASH_LABEL, ""),
        place=tenant(live),
        active=not ending and status.get("phase") not in ("Succeeded", "Failed"),
        refusal=pod_reason.condition(status, "PodScheduled", "False").get("message", ""),
        cost_is_foreign=_cost_is_foreign(metadata.get("managedFields", ())),
    )


def worst_first(pods: tuple[PodView, ...]) -> list[PodView]:
    """Pods that need a look, then those that wait, end, and are ready (pressed ones before others); by name among equals."""
    return sorted(
        pods,
        key=lambda pod: (
            pod.ready,
            pod.ending,
            pod_reason.word(pod.reason) in pod_reason.PATIENT,
            -(pod.pressure_level or 0),
            pod.name,
        ),
    )


def _start_s(status: Mapping[str, Any]) -> float | None:
    """From where the kubelet took the pod up until it was last found to be ready, which is not the first time for every pod."""
    ready = pod_reason.condition(status, "Ready", "True").get("lastTransitionTime")
    begun = status.get("startTime")
    if ready is None or begun is None:
        return None
    return (datetime.datetime.fromisoformat(ready) - datetime.datetime.fromisoformat(begun)).total_seconds()


def _cost_is_foreign(managers: Any) -> bool:
    field = f"f:{names.DELETION_COST_ANNOTATION}"
    owners = {
        entry["manager"]
        for entry in managers
        if field in entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations", {})
    }
    return bool(owners - {names.FIELD_MANAGER})
