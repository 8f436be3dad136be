"""What a pod waits for or died of, as a sentence for people that begins with one word for machines. Pure.

The sentence holds nothing that changes by itself (no counters, no times), so that a waiting pod causes no writes.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from octavo_operator import names, pod_volumes

LENGTH = 400
# Reasons that pass by themselves.
PATIENT = ("ContainerCreating", "Loading", "Pending", "Preparing", "Starting", "Warming")

_CREATING = {"ContainerCreating", "PodInitializing"}
_IMAGE_REASONS = {"ErrImagePull", "ImagePullBackOff"}
# A runtime that died once may well load this time; one that died again is in a loop until it is ready.
_DEATHS_OF_A_LOOP = 2
# Reasons of the condition DisruptionTarget: who ends a pod that nobody else asked to end.
_DISRUPTIONS = {
    "DeletionByTaintManager": "NodeLost: its node does not answer or has a taint that the pod does not tolerate",
    "DeletionByPodGC": "NodeLost: its node is gone",
    "EvictionByEvictionAPI": "Evicted: asked for by the eviction API, as when its node is drained; finishing its requests",
    "PreemptionByScheduler": "Preempted: a pod of higher priority takes its place; finishing its requests",
}
# How the runtime's command line begins to say that it does not know a flag or its value.
_WRONG_FLAG = re.compile(r"^octavo[ a-z]*: (error: )?(unrecognized arguments|argument --|--[^:]* (is|are) unknown)")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def reason(pod: Mapping[str, Any]) -> str:
    """Empty for a pod that is ready."""
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"]:
        return ending(status)[:LENGTH]
    return "" if condition(status, "Ready", "True") else _waiting_for(pod.get("spec", {}), status)[:LENGTH]


def ending(status: Mapping[str, Any]) -> str:
    target = condition(status, "DisruptionTarget", "True").get("reason", "")
    return _DISRUPTIONS.get(target, "Terminating: finishing its requests")


def word(reason: str) -> str:
    """The word for machines that `reason` begins with, such as OOMKilled; empty where there is none."""
    return re.match(r"[A-Za-z]*", reason)[0]  # type: ignore[index] # matches always, if only nothing


def runtime(containers: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The runtime's container among containers or their statuses; a pod may have others beside it."""
    found = list(containers)
    return next((each for each in found if each.get("name") == names.RUNTIME_CONTAINER), found[0] if found else None)


def death(container: Mapping[str, Any], limit: str = "") -> str:
    """What the container's last process died of; empty where none has. `limit` is its memory's."""
    terminated = container.get("state", {}).get("terminated") or container.get("lastState", {}).get("terminated")
    if terminated is None:
        return ""
    code = f"exit code {terminated.get('exitCode', '?')}"
    if terminated.get("reason") == "OOMKilled":
        more = f"more memory than its limit of {limit}" if limit else "more memory than its limit"
        return f"OOMKilled ({code}): it used {more}; raise spec.resources.memory"
    lines = [line for text in terminated.get("message", "").splitlines() if (line := plain(text))]
    return f"{code}: {_with_remedy(container, lines[-1])}" if lines else code


def _with_remedy(container: Mapping[str, Any], last: str) -> str:
    """The last line of a process, with what to do where it is about a flag: the runtime knows no fields."""
    if container.get("name") == names.RUNTIME_CONTAINER and _WRONG_FLAG.search(last):
        return f"{last}; correct spec.runtime.extraArgs, or use a spec.runtime.image that takes it"
    return last


def plain(text: str) -> str:
    """One line of a program's output without colours and control characters."""
    return "".join(character for character in _ESCAPES.sub("", text) if character.isprintable()).strip()


def condition(status: Mapping[str, Any], kind: str, value: str) -> Mapping[str, Any]:
    """The condition of that type where it has that status, else an empty one."""
    for found in status.get("conditions", ()):
        if found["type"] == kind and found["status"] == value:
            same: Mapping[str, Any] = found
            return same
    return {}


def _waiting_for(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    if status.get("phase") == "Failed":
        return _sentence(status.get("reason", "Failed"), status.get("message", "the pod failed"))
    if unscheduled := condition(status, "PodScheduled", "False"):
        return _sentence(unscheduled.get("reason", "Unschedulable"), unscheduled.get("message", ""))
    if unmounted := _unmounted(spec, status):
        return unmounted
    if before := _preparing(status.get("initContainerStatuses", ())):
        return before
    container = runtime(status.get("containerStatuses", ()))
    if container is None:
        return "Pending: the node has not begun"
    if container.get("ready") and condition(status, "ContainersReady", "True"):
        return _kept_back(condition(status, "Ready", "False"))
    return _container_reason(container, memory_limit(spec))


def _unmounted(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """What a pod waits for whose node still prepares its volumes, before it pulls images; else, or where it needs none, empty."""
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    waiting = {container.get("state", {}).get("waiting", {}).get("reason") for container in containers}
    if not condition(status, "PodReadyToStartContainers", "False") or not waiting or waiting - _CREATING:
        return ""
    if not (needed := pod_volumes.needed(spec)):
        return ""
    them = "is it there" if len(needed) == 1 else "are all of them there"
    return f"ContainerCreating: its volumes are not mounted yet; they need {' and '.join(needed)}: {them}?"


def memory_limit(spec: Mapping[str, Any]) -> str:
    container = runtime(spec.get("containers", ())) or {}
    return str(container.get("resources", {}).get("limits", {}).get("memory", ""))


def _preparing(containers: Iterable[Mapping[str, Any]]) -> str:
    """What an init container that a user added holds up; empty where none does."""
    for container in containers:
        state = container.get("state", {})
        if container.get("ready") or state.get("terminated", {}).get("exitCode") == 0:
            continue  # a sidecar that runs, or one that is done
        what = f"the init container {container.get('name', '')}"
        if "waiting" in state and state["waiting"].get("reason") not in (None, "PodInitializing"):
            return _waiting_reason(container, state["waiting"], "")
        failed = death(container)
        return f"InitFailed: {what}: {failed}" if failed else f"Preparing: {what} runs"
    return ""


def _kept_back(ready: Mapping[str, Any]) -> str:
    """All containers are ready and the pod is not: a readiness gate, or the node's controller who lost sight of the kubelet."""
    if ready.get("reason"):
        return _sentence(ready["reason"], ready.get("message", ""))
    return "NodeLost: its node does not answer; whether the pod still serves is not known"


def _container_reason(container: Mapping[str, Any], limit: str) -> str:
    state = container.get("state", {})
    if "waiting" in state:
        return _waiting_reason(container, state["waiting"], limit)
    died = death(container, limit)
    deaths = container.get("restartCount", 0) + ("terminated" in state)
    if died and deaths >= _DEATHS_OF_A_LOOP:
        # Each round passes through running, terminated and waiting; one text for all keeps the status still.
        return _sentence("CrashLoopBackOff", died)
    if "terminated" in state:
        return died
    again = f" again after {died}" if died else ""
    if not container.get("started"):
        return f"Starting: the runtime does not answer yet{again}"
    return f"Loading: the model is being loaded or warmed up{again}"


def _waiting_reason(container: Mapping[str, Any], waiting: Mapping[str, Any], limit: str) -> str:
    reason = waiting.get("reason", "Waiting")
    if reason == "CrashLoopBackOff":
        return _sentence(reason, death(container, limit) or "the runtime ends again and again")
    if reason in _IMAGE_REASONS:
        # The kubelet alternates between the two reasons; one word and the cause keep the text still.
        cause = waiting.get("message", "").rpartition("ErrImagePull: ")[2]
        return _sentence("ImagePullBackOff", cause or f"cannot pull {container.get('image', 'the image')}")
    if reason == "ContainerCreating":
        return "ContainerCreating: the image is being pulled or a volume mounted"
    return _sentence(reason, waiting.get("message", ""))


def _sentence(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else str(reason)
