"""What was seen of a service's children, as small values. Pure: from API objects, without I/O.

`PodView.reason` is a sentence for people: what the pod waits for, or what it died of. It holds nothing that changes by itself
(no counters, no times), so that a waiting pod causes no writes.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

_IMAGE_REASONS = {"ErrImagePull", "ImagePullBackOff"}
_REASON_LENGTH = 400
# A runtime that died once may well load this time; one that died again is in a loop until it is ready.
_DEATHS_OF_A_LOOP = 2


@dataclasses.dataclass(frozen=True)
class PodView:
    """A pod: `reason` is empty where it is ready."""

    name: str
    ready: bool
    ending: bool
    reason: str


@dataclasses.dataclass(frozen=True)
class DeploymentView:
    """Counts of a Deployment's pods; `settled` when its controller has seen the current spec."""

    settled: bool
    replicas: int = 0
    updated: int = 0
    ready: int = 0
    failure: str = ""


@dataclasses.dataclass(frozen=True)
class Observed:
    deployment: DeploymentView | None = None
    pods: tuple[PodView, ...] = ()


def deployment_view(live: Mapping[str, Any]) -> DeploymentView:
    metadata, status = live["metadata"], live.get("status", {})
    return DeploymentView(
        settled=status.get("observedGeneration", 0) >= metadata["generation"],
        replicas=status.get("replicas", 0),
        updated=status.get("updatedReplicas", 0),
        ready=status.get("readyReplicas", 0),
        failure=_condition(status, "ReplicaFailure", "True").get("message", ""),
    )


def pod_view(live: Mapping[str, Any]) -> PodView:
    metadata, status = live["metadata"], live.get("status", {})
    ending = "deletionTimestamp" in metadata
    ready = bool(_condition(status, "Ready", "True")) and not ending
    reason = "" if ready else ("Terminating: finishing its requests" if ending else _waiting_for(status))
    return PodView(name=metadata["name"], ready=ready, ending=ending, reason=reason[:_REASON_LENGTH])


def worst_first(pods: tuple[PodView, ...]) -> list[PodView]:
    """Pods that need a look, then those that wait, end, and are ready; by name among equals."""
    return sorted(pods, key=lambda pod: (pod.ready, pod.ending, pod.reason.startswith(_PATIENT), pod.name))


# Reasons that pass by themselves.
_PATIENT = ("ContainerCreating", "Loading", "Pending", "Starting")


def _waiting_for(status: Mapping[str, Any]) -> str:
    if status.get("phase") == "Failed":
        return _sentence(status.get("reason", "Failed"), status.get("message", "the pod failed"))
    unscheduled = _condition(status, "PodScheduled", "False")
    if unscheduled:
        return _sentence(unscheduled.get("reason", "Unschedulable"), unscheduled.get("message", ""))
    containers = status.get("containerStatuses", ())
    if not containers:
        return "Pending: the node has not begun"
    return _container_reason(containers[0])


def _container_reason(container: Mapping[str, Any]) -> str:
    state = container.get("state", {})
    if "waiting" in state:
        return _waiting_reason(container, state["waiting"])
    death = _death(state.get("terminated") or container.get("lastState", {}).get("terminated"))
    deaths = container.get("restartCount", 0) + ("terminated" in state)
    if death and deaths >= _DEATHS_OF_A_LOOP:
        # Each round passes through running, terminated and waiting; one text for all keeps the status still.
        return _sentence("CrashLoopBackOff", death)
    if "terminated" in state:
        return death
    after = f" again after {death}" if death else ""
    if not container.get("started"):
        return f"Starting: the runtime does not answer yet{after}"
    return f"Loading: the model is being loaded or warmed up{after}"


def _waiting_reason(container: Mapping[str, Any], waiting: Mapping[str, Any]) -> str:
    reason = waiting.get("reason", "Waiting")
    if reason == "CrashLoopBackOff":
        death = _death(container.get("lastState", {}).get("terminated"))
        return _sentence(reason, death or "the runtime ends again and again")
    if reason in _IMAGE_REASONS:
        # The kubelet alternates between the two reasons; one word and the cause keep the text still.
        cause = waiting.get("message", "").rpartition("ErrImagePull: ")[2]
        return _sentence("ImagePullBackOff", cause or f"cannot pull {container.get('image', 'the image')}")
    if reason == "ContainerCreating":
        return "ContainerCreating: the image is being pulled or a volume mounted"
    return _sentence(reason, waiting.get("message", ""))


def _death(terminated: Mapping[str, Any] | None) -> str:
    if terminated is None:
        return ""
    if terminated.get("reason") == "OOMKilled":
        return "OOMKilled: it used more memory than its limit; raise spec.resources.memory"
    text = f"exit code {terminated.get('exitCode', '?')}"
    lines = [line.strip() for line in terminated.get("message", "").splitlines() if line.strip()]
    return f"{text}: {lines[-1]}" if lines else text


def _condition(status: Mapping[str, Any], kind: str, value: str) -> Mapping[str, Any]:
    for condition in status.get("conditions", ()):
        if condition["type"] == kind and condition["status"] == value:
            found: Mapping[str, Any] = condition
            return found
    return {}


def _sentence(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason
