"""The Job that inspects a model: the whole of one, then what of other services is in it."""

from typing import Any

from octavo_operator import names
from octavo_operator.desired import pod
from octavo_operator.desired.inspect import digest, inspection_job, inspection_pod
from octavo_operator.fitting.workload import runtime_container
from tests.operator.samples import IMAGE, UID, parsed


def job(**spec: Any) -> dict[str, Any]:
    service = parsed(**spec)
    serving = pod.template(service)["spec"]
    return inspection_job(service, inspection_pod(serving, runtime_container(serving)))


def test_a_whole_job() -> None:
    found = job()
    key = digest(found["spec"]["template"]["spec"])
    labels = {
        "app.kubernetes.io/name": "octavo-runtime",
        "app.kubernetes.io/instance": "chat",
        "app.kubernetes.io/component": "inspect",
        "app.kubernetes.io/managed-by": "octavo-operator",
    }
    assert found == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"chat-inspect-{key}",
            "namespace": "demo",
            "labels": {**labels, "serving.octavo.dev/service": "chat"},
            "ownerReferences": [
                {
                    "apiVersion": "serving.octavo.dev/v1alpha1",
                    "kind": "InferenceService",
                    "name": "chat",
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "backoffLimit": 2,
            "activeDeadlineSeconds": 900,
            "template": {
                "metadata": {
                    "labels": {
                        **labels,
                        "serving.octavo.dev/inspects": "chat",
                        "serving.octavo.dev/inspection": key,
                    }
                },
                "spec": {
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 65532,
                        "runAsGroup": 65532,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "inspect",
                            "image": IMAGE,
                            "command": ["octavo"],
                            "args": [
                                "inspect",
                                "file:///models/smollm2.gguf",
                                "--termination-log=/dev/termination-log",
                            ],
                            "env": [{"name": "HOME", "value": "/tmp"}],
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "readOnlyRootFilesystem": True,
                                "capabilities": {"drop": ["ALL"]},
                            },
                            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                            "resources": {
                                "requests": {"cpu": "100m", "memory": "256Mi"},
                                "limits": {"memory": "1Gi"},
                            },
                            "terminationMessagePath": "/dev/termination-log",
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                        }
                    ],
                    "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}}],
                },
            },
        },
    }


def test_runs_where_the_pods_will_without_their_gpus() -> None:
    gpu = {"nodeSelector": {"pool": "large"}, "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
    spec = job(device="gpu", gpu=gpu, parallelism={"tensor": 4})["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == gpu["nodeSelector"]
    assert spec["tolerations"] == gpu["tolerations"]
    [container] = spec["containers"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"], "no shared memory of ranks"


def test_mounts_the_claim_that_holds_the_model() -> None:
    spec = job(model={"source": "pvc://weights/small"})["spec"]["template"]["spec"]
    assert spec["containers"][0]["args"][1] == f"{names.MODEL_DIR}/small"
    assert {"name": "model", "mountPath": names.MODEL_DIR, "readOnly": True} in spec["containers"][0]["volumeMounts"]
    assert {"name": "model", "persistentVolumeClaim": {"claimName": "weights", "readOnly": True}} in spec["volumes"]


def test_is_not_taken_for_a_pod_that_serves() -> None:
    labels = job()["spec"]["template"]["metadata"]["labels"]
    assert names.SERVICE_LABEL not in labels
    assert names.SERVING_LABEL not in labels


def test_names_have_room_for_a_jobs_suffix() -> None:
    service = parsed()
    longest = len("x" * 40 + job()["metadata"]["name"].removeprefix(service.key.name))
    assert longest <= 63, "a Job's name is a label of its pods"
