"""Whether pods of a template are there already, be they a Deployment's or a LeaderWorkerSet's. Pure."""

from collections.abc import Mapping
from typing import Any

from octavo_operator import kinds, names, pod_reason, standing
from octavo_operator.desired import leaderworkerset


def runtime_container(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    found = pod_reason.runtime(pod["containers"])
    assert found is not None, f"every pod has the container {names.RUNTIME_CONTAINER}"
    return found


def limit_of(pod: Mapping[str, Any]) -> str | None:
    """The memory limit of the runtime's container."""
    limits: Mapping[str, str] = runtime_container(pod).get("resources", {}).get("limits", {})
    return limits.get("memory")


def pod_spec(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of the pods that compute; those of a group of several nodes are alike in what they ask for."""
    spec = workload["spec"]
    template = spec["template"] if "template" in spec else spec["leaderWorkerTemplate"]["leaderTemplate"]
    found: Mapping[str, Any] = template["spec"]
    return found


def makes(live: Mapping[str, Any] | None, template: Mapping[str, Any]) -> bool:
    """Whether there are pods of that template: a workload that is not there, or at zero, has none, and may get any template."""
    if live is None or not live.get("status", {}).get("replicas"):
        return False
    if live["kind"] == kinds.DEPLOYMENT.kind:
        return standing.holds(live, template)
    wanted = {"spec": {"leaderWorkerTemplate": leaderworkerset.templates(dict(template))}}
    return leaderworkerset.revision_of(live) == leaderworkerset.revision_of(wanted)
