"""The children of a service: one whole Deployment and Service, then only what other specs change in them."""

import json
from pathlib import Path
from typing import Any

import pytest

from octavo_operator.desired import pod_v1
from octavo_operator.desired.deployment import deployment
from octavo_operator.desired.service import cluster_service
from octavo_operator.plan import plan
from tests.operator.golden import CHILD_LABELS, OWNER, WHOLE
from tests.operator.samples import parsed

# Specs with the pod templates that 0.1.0 rendered for them. Only added to: a changed byte restarts pods at an upgrade.
RELEASED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("released_templates.json").read_text())
POD = "spec.template.spec"
RUNTIME = f"{POD}.containers.0"


def rendered(**spec: Any) -> dict[str, Any]:
    service = parsed(**spec)
    return deployment(service, plan(service))


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Path to value of each leaf; lists of strings are leaves."""
    if isinstance(value, dict):
        items: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        items = list(enumerate(value))
    else:
        return {path: value}
    return {
        where: leaf
        for key, below in items
        for where, leaf in leaves(below, f"{path}.{key}" if path else str(key)).items()
    }


def changes(**spec: Any) -> dict[str, Any]:
    """What a spec changes in the whole Deployment; None for what is gone."""
    before, after = leaves(WHOLE), leaves(rendered(**spec))
    return {path: after.get(path) for path in before | after if before.get(path) != after.get(path)}


def test_the_whole_deployment_of_a_small_service() -> None:
    assert rendered() == WHOLE


@pytest.mark.parametrize("released", [pytest.param(case, id=name) for name, case in RELEASED.items()])
def test_an_upgrade_of_the_operator_leaves_released_templates_byte_for_byte(released: dict[str, Any]) -> None:
    assert json.dumps(pod_v1.template(parsed(**released["spec"]))) == json.dumps(released["template"])


def test_the_whole_service() -> None:
    assert cluster_service(parsed()) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "chat", "namespace": "demo", "labels": CHILD_LABELS, "ownerReferences": [OWNER]},
        "spec": {
            "type": "ClusterIP",
            "selector": {"serving.octavo.dev/service": "chat", "serving.octavo.dev/serving": "true"},
            "ports": [
                {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http", "appProtocol": "http"},
            ],
        },
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"replicas": 3}, {"spec.replicas": 3}, id="replicas"),
        pytest.param({"suspend": True}, {"spec.replicas": 0}, id="suspend"),
        pytest.param(
            {"resources": {"cpu": 2, "memory": "4096Mi"}},
            {
                f"{RUNTIME}.resources.requests.cpu": "2",
                f"{RUNTIME}.resources.requests.memory": "4Gi",
                f"{RUNTIME}.resources.limits.memory": "4Gi",
            },
            id="CPU is requested, memory also limited",
        ),
        pytest.param({"runtime": {"image": "other:2"}}, {f"{RUNTIME}.image": "other:2"}, id="image"),
        pytest.param(
            {"rollout": {"strategy": "OneByOne"}},
            {"spec.strategy.rollingUpdate.maxSurge": 0, "spec.strategy.rollingUpdate.maxUnavailable": 1},
            id="OneByOne",
        ),
        pytest.param(
            {"rollout": {"strategy": "Recreate"}},
            {
                "spec.strategy.type": "Recreate",
                "spec.strategy.rollingUpdate.maxSurge": None,
                "spec.strategy.rollingUpdate.maxUnavailable": None,
            },
            id="Recreate",
        ),
    ],
)
def test_a_field_changes_only_its_part(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    assert changes(**spec) == expected


def test_drain_timeout_reaches_grace_period_flag_and_hook() -> None:
    pod = rendered(rollout={"drainTimeoutSeconds": 300})["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["terminationGracePeriodSeconds"] == 330
    assert "--drain-timeout=300" in container["args"]
    assert container["lifecycle"]["preStop"]["exec"]["command"][-1] == "--timeout=300"


def test_gpus_are_requested_and_limited_by_the_tensor_degree() -> None:
    spec = rendered(device="gpu", parallelism={"tensor": 4})["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert container["resources"] == {"requests": {"nvidia.com/gpu": "4"}, "limits": {"nvidia.com/gpu": "4"}}
    assert {"--device=cuda", "--tensor-parallel-size=4"} <= set(container["args"])


def test_gpu_settings_place_the_pods() -> None:
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists"}
    gpu = {"resource": "example.com/gpu", "nodeSelector": {"disk": "fast"}, "tolerations": [toleration]}
    spec = rendered(device="gpu", gpu=gpu)["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert spec["tolerations"] == [toleration]
    assert spec["containers"][0]["resources"]["limits"] == {"example.com/gpu": "1"}


@pytest.mark.parametrize("device", ["gpu", "cpu"])
def test_shared_memory_is_mounted_for_several_ranks(device: str) -> None:
    spec = rendered(device=device, parallelism={"tensor": 2})["spec"]["template"]["spec"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}} in spec["volumes"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in spec["containers"][0]["volumeMounts"]


def test_a_claim_is_mounted_read_only_and_served_from() -> None:
    spec = rendered(model={"source": "pvc://weights/llama/8b"})["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert {
        "name": "model",
        "persistentVolumeClaim": {"claimName": "weights", "readOnly": True},
    } in spec["volumes"]
    assert {"name": "model", "mountPath": "/mnt/model", "readOnly": True} in container["volumeMounts"]
    assert container["args"][:2] == ["serve", "/mnt/model/llama/8b"]


def test_runtime_settings_become_flags_and_extra_ones_come_last() -> None:
    args = rendered(
        model={"source": "file:///models/m", "servedName": "m", "dtype": "float32"},
        runtime={
            "blockSize": 32,
            "maxNumSeqs": 8,
            "maxNumBatchedTokens": 256,
            "maxModelLen": 1024,
            "kvCache": {"memory": "1024Mi"},
            "extraArgs": ["--max-num-queued-reqs=7"],
        },
    )["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {
        "--served-model-name=m",
        "--dtype=float32",
        "--block-size=32",
        "--max-num-seqs=8",
        "--max-num-batched-tokens=256",
        "--max-model-len=1024",
        "--kv-cache-memory=1Gi",
    } <= set(args)
    assert args[-1] == "--max-num-queued-reqs=7"


@pytest.mark.parametrize(
    ("runtime", "flag"),
    [
        pytest.param({"schedulerDelayMs": 5}, "--scheduler-delay-ms=5", id="a delay"),
        pytest.param({"schedulerDelayMs": 0}, "--scheduler-delay-ms=0", id="no delay, said"),
        pytest.param({"chunkedPrefill": True}, "--chunked-prefill", id="chunks"),
        pytest.param({"chunkedPrefill": False}, "--no-chunked-prefill", id="no chunks"),
        pytest.param({"prefixCaching": True}, "--prefix-caching", id="prefix caching"),
        pytest.param({"prefixCaching": False}, "--no-prefix-caching", id="no prefix caching"),
    ],
)
def test_a_scheduler_setting_changes_the_pod_template_by_its_one_flag(runtime: dict[str, Any], flag: str) -> None:
    """A changed template is what restarts the pods."""
    [(path, args)] = changes(runtime=runtime).items()
    before = leaves(WHOLE)[f"{RUNTIME}.args"]
    assert path == f"{RUNTIME}.args"
    assert [argument for argument in args if argument not in before] == [flag]
    assert [argument for argument in args if argument in before] == before


def test_arguments_are_taken_literally() -> None:
    """Kubernetes expands `$(NAME)` in arguments, and reads each `$$` as one `$`."""
    args = rendered(
        model={"source": "file:///models/$(HOME)", "servedName": "$(HOME)"},
        runtime={"extraArgs": ["--chat-template=a$b$$(HOME)$"]},
    )["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[1] == "file:///models/$$(HOME)"
    assert "--served-model-name=$$(HOME)" in args
    assert args[-1] == "--chat-template=a$$b$$$$(HOME)$$"


def test_nothing_rendered_is_null_or_empty() -> None:
    everything = rendered(
        device="gpu",
        parallelism={"tensor": 2},
        resources={"memory": "1Gi"},
        gpu={"nodeSelector": {}, "tolerations": []},
    )
    assert not [path for path, leaf in leaves(everything).items() if leaf in (None, {}, [], "")]
