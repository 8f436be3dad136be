"""What an InferenceService waits for, as one line for people: its own condition, else what its pods say."""

from collections.abc import Sequence

from tests.cluster.kubectl import Object, condition


def what_it_waits_for(service: Object | None, pods: Sequence[Object]) -> str:
    if service is None:
        return "the object to appear"
    if not condition(service, "Ready"):
        return "the operator's first look at it"
    said = condition(service, "Ready").get("message") or condition(service, "Ready").get("reason", "")
    return "; ".join(part for part in (said, *map(_of_pod, pods)) if part)


def _of_pod(pod: Object) -> str:
    status = pod.get("status", {})
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return f"container {waiting.get('reason', 'waiting')}"
        if not container.get("ready"):
            return "container runs, not ready yet"
    for entry in status.get("conditions", []):
        if entry["type"] == "PodScheduled" and entry["status"] == "False":
            return str(entry.get("message", "not scheduled"))
    return ""
