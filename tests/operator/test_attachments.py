"""What fields mount into the runtime's container, and what they tell the runtime of it."""

from typing import Any

import pytest

from octavo_operator.desired import pod
from tests.operator.samples import parsed

HUB = {"source": "hf://org/repo@main"}


def changes(**spec: Any) -> dict[str, Any]:
    """Volumes, mounts and flags of a spec that the small service does not have."""
    before, after = pod.template(parsed())["spec"], pod.template(parsed(**spec))["spec"]
    old, new = before["containers"][0], after["containers"][0]
    return {
        "volumes": [item for item in after["volumes"] if item not in before["volumes"]],
        "mounts": [item for item in new["volumeMounts"] if item not in old["volumeMounts"]],
        "args": [item for item in new["args"] if item not in old["args"]],
        "fsGroup": after["securityContext"].get("fsGroup"),
    }


CACHE_MOUNT = {"name": "cache", "mountPath": "/var/cache/octavo"}


@pytest.mark.parametrize(
    ("spec", "volumes", "mounts", "args", "group"),
    [
        pytest.param(
            {"model": HUB},
            [{"name": "cache", "emptyDir": {}}],
            [CACHE_MOUNT],
            ["hf://org/repo@main", "--model-cache=/var/cache/octavo/models"],
            None,
            id="a hub's model goes with its pod",
        ),
        pytest.param(
            {"model": {**HUB, "cache": {"emptyDir": {"sizeLimit": "2048Mi"}}}},
            [{"name": "cache", "emptyDir": {"sizeLimit": "2Gi"}}],
            [CACHE_MOUNT],
            ["hf://org/repo@main", "--model-cache=/var/cache/octavo/models"],
            None,
            id="a bounded cache",
        ),
        pytest.param(
            {"model": {**HUB, "cache": {"persistentVolumeClaim": {"claimName": "weights"}}}},
            [{"name": "cache", "persistentVolumeClaim": {"claimName": "weights"}}],
            [CACHE_MOUNT],
            [
                "hf://org/repo@main",
                "--model-cache=/var/cache/octavo/models",
                "--weights-cache=/var/cache/octavo/weights",
            ],
            65532,
            id="a claim, which the runtime's group must be able to write",
        ),
        pytest.param(
            {"model": {"source": "file:///m", "cache": {"hostPath": {"path": "/data"}}}},
            [{"name": "cache", "hostPath": {"path": "/data", "type": "DirectoryOrCreate"}}],
            [CACHE_MOUNT],
            ["file:///m", "--weights-cache=/var/cache/octavo/weights"],
            None,
            id="a folder of the node, for weights as CPU kernels take them",
        ),
        pytest.param(
            {"model": {**HUB, "tokenSecretRef": {"name": "hub", "key": "read"}}},
            [
                {"name": "hub-token", "secret": {"secretName": "hub", "items": [{"key": "read", "path": "token"}]}},
                {"name": "cache", "emptyDir": {}},
            ],
            [{"name": "hub-token", "mountPath": "/etc/octavo/hub-token", "readOnly": True}, CACHE_MOUNT],
            [
                "hf://org/repo@main",
                "--hub-token-file=/etc/octavo/hub-token/token",
                "--model-cache=/var/cache/octavo/models",
            ],
            None,
            id="a token",
        ),
        pytest.param(
            {"model": {"source": "oci://registry:5000/models/tiny:v1/a/b.gguf"}},
            [{"name": "model", "image": {"reference": "registry:5000/models/tiny:v1"}}],
            [{"name": "model", "mountPath": "/mnt/model", "readOnly": True}],
            ["/mnt/model/a/b.gguf"],
            None,
            id="a file of an image",
        ),
        pytest.param(
            {"model": {"source": "oci://registry:5000/tiny@sha256:0f"}},
            [{"name": "model", "image": {"reference": "registry:5000/tiny@sha256:0f"}}],
            [{"name": "model", "mountPath": "/mnt/model", "readOnly": True}],
            ["/mnt/model"],
            None,
            id="the whole of an image",
        ),
        pytest.param(
            {"runtime": {"kvCache": {"tiers": {"cpu": {"memory": "1024Mi"}, "disk": {"size": "16Gi"}}}}},
            [{"name": "kv-tier", "emptyDir": {}}],
            [{"name": "kv-tier", "mountPath": "/var/cache/octavo-kv"}],
            ["--kv-tier-memory=1Gi", "--kv-tier-disk=/var/cache/octavo-kv", "--kv-tier-disk-size=16Gi"],
            None,
            id="tiers",
        ),
        pytest.param(
            {"runtime": {"warmup": {"manifestConfigMap": "shapes"}}},
            [{"name": "warmup", "configMap": {"name": "shapes", "optional": True}}],
            [{"name": "warmup", "mountPath": "/etc/octavo/warmup", "readOnly": True}],
            ["--warmup-manifest=/etc/octavo/warmup/manifest.json"],
            None,
            id="shapes that traffic met",
        ),
        pytest.param(
            {"auth": {"apiKeySecretRef": {"name": "clients"}}},
            [{"name": "api-keys", "secret": {"secretName": "clients", "items": [{"key": "api-keys", "path": "keys"}]}}],
            [{"name": "api-keys", "mountPath": "/etc/octavo/api-keys", "readOnly": True}],
            ["--api-key-file=/etc/octavo/api-keys/keys"],
            None,
            id="keys of clients",
        ),
    ],
)
def test_a_field_mounts_what_it_names_and_tells_the_runtime(
    spec: dict[str, Any],
    volumes: list[dict[str, Any]],
    mounts: list[dict[str, Any]],
    args: list[str],
    group: int | None,
) -> None:
    assert changes(**spec) == {"volumes": volumes, "mounts": mounts, "args": args, "fsGroup": group}
