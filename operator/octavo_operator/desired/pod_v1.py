"""The pod template, first generation.

A template is what a running pod's identity hangs on: any changed byte restarts every pod. So this file is never changed in what
it renders once released; a new generation is a new file beside it, and the workload's annotation says which one made it.
"""

from typing import Any

from octavo_operator import names
from octavo_operator.desired import attachments, labels
from octavo_operator.desired.attachments import Attachment
from octavo_operator.desired.disruption import spread_constraints
from octavo_operator.desired.flags import drain_command, serve_args
from octavo_operator.service import Service


def template(service: Service) -> dict[str, Any]:
    attached = attachments.of_pod(service)
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": service.rollout.drain_timeout_s + names.GRACE_BEYOND_DRAIN_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": names.RUNTIME_USER,
            "runAsGroup": names.RUNTIME_USER,
            **attachments.group_settings(attached),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(service, attached)],
        "volumes": [*_volumes(service), *(attachment.as_volume for attachment in attached)],
    }
    if service.device == "gpu" and service.gpu.node_selector:
        spec["nodeSelector"] = dict(service.gpu.node_selector)
    if service.device == "gpu" and service.gpu.tolerations:
        spec["tolerations"] = [dict(toleration) for toleration in service.gpu.tolerations]
    if spread := spread_constraints(service):
        spec["topologySpreadConstraints"] = spread
    return {"metadata": {"labels": labels.pod_labels(service)}, "spec": spec}


def _container(service: Service, attached: list[Attachment]) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "runtime",
        "image": service.runtime.image,
        "command": ["octavo"],
        "args": serve_args(service),
        # The root file system is read-only; what libraries cache goes to the emptyDir.
        "env": [{"name": "HOME", "value": "/tmp"}],
        "ports": [
            {"name": "http", "containerPort": names.API_PORT, "protocol": "TCP"},
            {"name": "health", "containerPort": names.HEALTH_PORT, "protocol": "TCP"},
        ],
        # /live is up before the model loads, and fails by itself where loading makes no progress.
        "startupProbe": _probe("/live", period_s=1, failures=120),
        "livenessProbe": _probe("/live", period_s=10, failures=3),
        "readinessProbe": _probe("/ready", period_s=2, failures=3),
        "lifecycle": {"preStop": {"exec": {"command": drain_command(service)}}},
        # The last lines of a crashed runtime's log are the reason that the status shows.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [*_mounts(service), *(attachment.as_mount for attachment in attached)],
    }
    if resources := _resources(service):
        container["resources"] = resources
    return container


def _probe(path: str, period_s: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "health", "scheme": "HTTP"},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _resources(service: Service) -> dict[str, Any]:
    """CPU is only requested: idle cores may be used. Memory's request is its limit, so that no node is overcommitted."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if service.resources.cpu:
        requests["cpu"] = service.resources.cpu
    if service.resources.memory:
        requests["memory"] = limits["memory"] = service.resources.memory
    if service.device == "gpu":
        requests[service.gpu.resource] = limits[service.gpu.resource] = str(service.parallelism.devices_per_pod)
    return {name: amounts for name, amounts in (("requests", requests), ("limits", limits)) if amounts}


def _volumes(service: Service) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}},
        {"name": "run", "emptyDir": {"sizeLimit": "256Mi"}},
    ]
    if service.parallelism.tensor > 1:
        # The ranks' collectives need more than the container runtime's 64 MiB.
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}})
    return volumes


def _mounts(service: Service) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "run", "mountPath": names.RUN_DIR},
    ]
    if service.parallelism.tensor > 1:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
    return mounts
