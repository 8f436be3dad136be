"""What the API server refuses, and takes, of an InferenceService's fields: the model, its cache, its token, keys of the API."""

from typing import Any

import pytest

from tests.cluster.kubectl import Kubectl
from tests.cluster.schema import FILE, HUB, refusal, stored
from tests.operator.live import service


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param({"model": {"source": "s3://bucket/x"}}, "must be file:///path", id="source of another kind"),
        pytest.param({"model": {"source": "hf://org"}}, "must be file:///path", id="hub without a repository"),
        pytest.param(
            {"model": {"source": "hf://org/repo/model.bin"}}, "must be file:///path", id="file of another kind"
        ),
        pytest.param({"model": {"source": "oci://registry/image"}}, "must be file:///path", id="image without a tag"),
        pytest.param({"model": {**HUB, "cache": {}}}, "must have exactly one of", id="cache of no kind"),
        pytest.param(
            {"model": {**HUB, "cache": {"emptyDir": {}, "hostPath": {"path": "/data"}}}},
            "must have exactly one of",
            id="cache of two kinds",
        ),
        pytest.param(
            {"model": {**HUB, "cache": {"hostPath": {"path": "/data/../etc"}}}}, "without '..'", id="cache that climbs"
        ),
        pytest.param(
            {"model": {**FILE, "cache": {"emptyDir": {}}}, "device": "gpu"}, "remove spec.model.cache", id="idle cache"
        ),
        pytest.param({"model": {**FILE, "tokenSecretRef": {"name": "a"}}}, "or use an hf:// source", id="idle token"),
        pytest.param({"auth": {}}, "apiKeySecretRef: Required value", id="no keys"),
        pytest.param({"model": {"source": "file://models/x"}}, "must be file:///path", id="file with a host"),
        pytest.param({"model": {"source": "pvc://claim"}}, "must be file:///path", id="claim without a path"),
        pytest.param({"model": {"source": "file:///a/../b"}}, "must not contain '..'", id="source that climbs"),
        pytest.param({"model": {"source": "file:///a b"}}, "spaces", id="source with a space"),
        pytest.param({"model": {"source": "file:///" + "x" * 1100}}, "1024", id="source too long"),
        pytest.param({"model": {**FILE, "dtype": "float16"}}, "Unsupported value", id="unknown dtype"),
        pytest.param({"model": {}}, "source: Required value", id="no source"),
    ],
)
def test_refuses_what_cannot_be_and_says_how_to_mend_it(octavo: Kubectl, spec: dict[str, Any], says: str) -> None:
    assert says in refusal(octavo, service("schema", **spec))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"model": {"source": "pvc://my.claim/llama/8b"}}, id="a claim"),
        pytest.param({"model": HUB}, id="a hub's repository"),
        pytest.param({"model": {"source": "hf://org/repo/a/b.gguf@v1.0"}}, id="a file of a hub's revision"),
        pytest.param({"model": {"source": "oci://registry.example:5000/a/b:v1/dir/c.gguf"}}, id="a file of an image"),
        pytest.param({"model": {"source": "oci://registry.example/b@sha256:0f"}}, id="an image of a digest"),
        pytest.param({"model": {**FILE, "cache": {"hostPath": {"path": "/data"}}}}, id="weights for CPU kernels"),
    ],
)
def test_takes_what_can_be(octavo: Kubectl, spec: dict[str, Any]) -> None:
    stored(octavo, service("a" * 40, **spec))
