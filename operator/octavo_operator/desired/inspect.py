"""The Job that reads a model's sizes, on a pod like those that will serve it but without a GPU.

A Job's pods cannot be changed, so its name ends with a digest of them: other pods, another Job. Nothing of the name or labels of
the service is in the digest. The pods do not carry the label by which Services, budgets and autoscalers find those that serve.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from octavo_operator import kinds, names
from octavo_operator.desired import labels
from octavo_operator.service import Key, Service

COMPONENT = "inspect"
_RESULT = "/dev/termination-log"
# Of `octavo serve`, what the inspection needs to reach the model's files.
_FLAGS = ("--hub-token-file=",)
_RETRIES = 2  # after 10 and 20 seconds, as Jobs wait
_LONGEST_S = 900
_DIGEST_LENGTH = 10
_POD_FIELDS = (
    "affinity",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "hostAliases",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "securityContext",
    "serviceAccountName",
    "tolerations",
)
_CONTAINER_FIELDS = ("env", "envFrom", "image", "imagePullPolicy", "securityContext")
# Mounts that serving needs and reading a model does not.
_OTHER_MOUNTS = (names.RUN_DIR, names.DISK_TIER_DIR, names.API_KEYS_DIR, names.WARMUP_DIR, "/dev/shm")


def inspection_pod(serving: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of the pod that inspects what pods of the spec `serving` with the runtime's `container` will load."""
    mounts = [mount for mount in container.get("volumeMounts", ()) if mount["mountPath"] not in _OTHER_MOUNTS]
    mounted = {mount["name"] for mount in mounts}
    model, *flags = [argument for argument in container["args"] if argument != "serve"]
    inspecting = {
        **{field: container[field] for field in _CONTAINER_FIELDS if field in container},
        "volumeMounts": mounts,
        "name": COMPONENT,
        "command": ["octavo"],
        "args": [
            COMPONENT,
            model,
            *(flag for flag in flags if flag.startswith(_FLAGS)),
            f"--termination-log={_RESULT}",
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "terminationMessagePath": _RESULT,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {
        **{field: serving[field] for field in _POD_FIELDS if field in serving},
        "restartPolicy": "Never",
        "containers": [inspecting],
        "volumes": [volume for volume in serving.get("volumes", ()) if volume["name"] in mounted],
    }


def digest(pod: Mapping[str, Any]) -> str:
    """Names what is inspected and how: the source, the image, and what it takes to reach the files."""
    return hashlib.sha256(json.dumps(pod, sort_keys=True).encode()).hexdigest()[:_DIGEST_LENGTH]


def job_name(key: Key, inspected: str) -> str:
    return f"{labels.child_name(key, COMPONENT)}-{inspected}"


def inspection_job(service: Service, pod: Mapping[str, Any]) -> dict[str, Any]:
    inspected = digest(pod)
    own = labels.child_labels(service, COMPONENT)
    del own[names.SERVICE_LABEL]
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "metadata": {**labels.child_metadata(service, COMPONENT), "name": job_name(service.key, inspected)},
        "spec": {
            "backoffLimit": _RETRIES,
            "activeDeadlineSeconds": _LONGEST_S,
            "template": {
                "metadata": {
                    "labels": {
                        **own,
                        names.INSPECTS_LABEL: service.key.name,
                        names.INSPECTION_LABEL: inspected,
                    }
                },
                "spec": dict(pod),
            },
        },
    }
