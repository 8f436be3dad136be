"""Pods of a service as the API server would hand them out."""

from typing import Any


def pod(container: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    if container is not None:
        status["containerStatuses"] = [{"name": "runtime", "image": "octavo:1", **container}]
    return {"metadata": {"name": "chat-1"}, "status": status}


def terminated(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def limited(live: dict[str, Any], memory: str) -> dict[str, Any]:
    return {**live, "spec": {"containers": [{"name": "runtime", "resources": {"limits": {"memory": memory}}}]}}


def beside(live: dict[str, Any], name: str) -> dict[str, Any]:
    """The same with another container, which is ready, before the runtime's."""
    containers = [{"name": name, "ready": True, "state": {"running": {}}}, *live["status"]["containerStatuses"]]
    return {**live, "status": {**live["status"], "containerStatuses": containers}}


def ended_by(reason: str) -> dict[str, Any]:
    target = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    metadata = {"name": "chat-1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "status": {"conditions": [target]}}
