"""The whole Deployment of the small service of `samples`, written out once."""

from typing import Any

from tests.operator.samples import IMAGE, UID

CHILD_LABELS = {
    "app.kubernetes.io/name": "octavo-runtime",
    "app.kubernetes.io/instance": "chat",
    "app.kubernetes.io/component": "server",
    "app.kubernetes.io/managed-by": "octavo-operator",
    "serving.octavo.dev/service": "chat",
}
OWNER = {
    "apiVersion": "serving.octavo.dev/v1alpha1",
    "kind": "InferenceService",
    "name": "chat",
    "uid": UID,
    "controller": True,
    "blockOwnerDeletion": True,
}
WHOLE: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "chat",
        "namespace": "demo",
        "labels": CHILD_LABELS,
        "annotations": {"serving.octavo.dev/renderer": "v2", "serving.octavo.dev/default-image": IMAGE},
        "ownerReferences": [OWNER],
    },
    "spec": {
        "replicas": 1,
        "progressDeadlineSeconds": 2147483647,
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": {"serving.octavo.dev/service": "chat"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {
            "metadata": {"labels": {**CHILD_LABELS, "serving.octavo.dev/serving": "true"}},
            "spec": {
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "terminationGracePeriodSeconds": 90,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "runAsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "runtime",
                        "image": IMAGE,
                        "command": ["octavo"],
                        "args": [
                            "serve",
                            "file:///models/smollm2.gguf",
                            "--served-model-name=chat",
                            "--device=cpu",
                            "--tensor-parallel-size=1",
                            "--host=0.0.0.0",
                            "--port=8000",
                            "--health-port=8001",
                            "--run-dir=/run/octavo",
                            "--drain-timeout=60",
                        ],
                        "env": [{"name": "HOME", "value": "/tmp"}],
                        "ports": [
                            {"name": "http", "containerPort": 8000, "protocol": "TCP"},
                            {"name": "health", "containerPort": 8001, "protocol": "TCP"},
                        ],
                        "startupProbe": {
                            "httpGet": {"path": "/live", "port": "health", "scheme": "HTTP"},
                            "periodSeconds": 1,
                            "timeoutSeconds": 5,
                            "failureThreshold": 120,
                        },
                        "livenessProbe": {
                            "httpGet": {"path": "/live", "port": "health", "scheme": "HTTP"},
                            "periodSeconds": 10,
                            "timeoutSeconds": 5,
                            "failureThreshold": 3,
                        },
                        "readinessProbe": {
                            "httpGet": {"path": "/ready", "port": "health", "scheme": "HTTP"},
                            "periodSeconds": 2,
                            "timeoutSeconds": 5,
                            "failureThreshold": 3,
                        },
                        "lifecycle": {
                            "preStop": {
                                "exec": {
                                    "command": [
                                        "octavo",
                                        "drain",
                                        "--run-dir=/run/octavo",
                                        "--settle=5",
                                        "--timeout=60",
                                    ]
                                }
                            }
                        },
                        "terminationMessagePolicy": "FallbackToLogsOnError",
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "readOnlyRootFilesystem": True,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "volumeMounts": [
                            {"name": "tmp", "mountPath": "/tmp"},
                            {"name": "run", "mountPath": "/run/octavo"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}},
                    {"name": "run", "emptyDir": {"sizeLimit": "256Mi"}},
                ],
            },
        },
    },
}
