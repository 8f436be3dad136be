from typing import Any

import pytest

from octavo_operator import pins
from octavo_operator.service import Key, check_claim, claims, parse
from octavo_operator.spec.errors import SpecError
from octavo_operator.spec.model import Source
from tests.operator.samples import IMAGE, body, parsed


def test_fills_what_the_spec_leaves_out() -> None:
    service = parsed()
    assert service.key == Key("demo", "chat")
    assert (service.model.served_name, service.replicas, service.parallelism.tensor) == ("chat", 1, 1)
    assert (service.rollout.strategy, service.rollout.drain_timeout_s) == ("Auto", 60)
    assert (service.runtime.image, service.resources.cpu, service.resources.memory) == (IMAGE, None, None)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        pytest.param("file:///models/a b.gguf", Source("/models/a b.gguf"), id="path in the image"),
        pytest.param("pvc://weights/llama/8b", Source("llama/8b", claim="weights"), id="path in a claim"),
        pytest.param("hf://org/repo@main", Source(hub="hf://org/repo@main"), id="repository of a hub"),
        pytest.param(
            "oci://registry.example:5000/models/tiny:v1/a/b.gguf",
            Source("a/b.gguf", image="registry.example:5000/models/tiny:v1"),
            id="path in an image of a tag",
        ),
        pytest.param(
            "oci://registry.example/tiny@sha256:0f",
            Source("", image="registry.example/tiny@sha256:0f"),
            id="the whole of an image of a digest",
        ),
    ],
)
def test_reads_where_the_model_lies(text: str, source: Source) -> None:
    assert parsed(model={"source": text}).model.source == source


@pytest.mark.parametrize(
    ("spec", "reason", "names"),
    [
        pytest.param({"model": {"source": "s3://bucket/x"}}, "BadSource", "spec.model.source", id="unknown source"),
        pytest.param({"model": {"source": "pvc://claim"}}, "BadSource", "spec.model.source", id="claim without path"),
        pytest.param({"model": {"source": "oci://registry/x/y"}}, "BadSource", "image:tag", id="image without tag"),
        pytest.param({"model": {"source": "oci://x:1/y"}}, "BadSource", "registry/image", id="image without registry"),
        pytest.param(
            {"runtime": {"kvCache": {"dtype": "int8"}, "extraArgs": ["--kv-cache-dtype=fp8"]}},
            "SetTwice",
            r"spec\.runtime\.kvCache\.dtype",
            id="a flag beside its field",
        ),
        pytest.param(
            {"runtime": {"degradation": {"enabled": True}, "extraArgs": ["--no-memory-ladder"]}},
            "SetTwice",
            r"spec\.runtime\.degradation\.enabled",
            id="a switch beside its field",
        ),
        pytest.param({"resources": {"memory": "1GB"}}, "BadQuantity", "spec.resources.memory", id="no quantity"),
        pytest.param(
            {"runtime": {"kvCache": {"memory": "lots"}}}, "BadQuantity", "spec.runtime.kvCache.memory", id="KV memory"
        ),
    ],
)
def test_refuses_with_the_field_and_a_reason(spec: dict[str, Any], reason: str, names: str) -> None:
    with pytest.raises(SpecError, match=names) as refused:
        parsed(**spec)
    assert refused.value.reason == reason


def test_refuses_where_no_image_is_known() -> None:
    with pytest.raises(SpecError, match=r"set spec\.runtime\.image") as refused:
        parse(body(), pins.newest(None))
    assert refused.value.reason == "NoRuntimeImage"


def test_the_specs_image_goes_before_the_operators() -> None:
    assert parsed(runtime={"image": "other:2"}).runtime.image == "other:2"


def test_quantities_are_canonical() -> None:
    service = parsed(resources={"cpu": "1500m", "memory": "2048Mi"}, runtime={"kvCache": {"memory": "0.5Gi"}})
    assert (service.resources.cpu, service.resources.memory, service.runtime.kv_cache.memory) == (
        "1500m",
        "2Gi",
        "512Mi",
    )


CLAIMED = {"source": "pvc://weights/llama"}


def claim(*modes: str) -> dict[str, Any]:
    return {"metadata": {"name": "weights"}, "spec": {"accessModes": list(modes)}}


def checked(replicas: int, found: dict[str, Any] | None, **model: Any) -> None:
    service = parsed(model={**CLAIMED, **model}, replicas=replicas)
    [(name, shared)] = claims(service).items()
    assert name == "weights"
    check_claim(service, found, shared)


@pytest.mark.parametrize(
    ("replicas", "found"),
    [
        pytest.param(1, claim("ReadWriteOnce"), id="one pod needs no sharing"),
        pytest.param(2, claim("ReadWriteMany"), id="shared for writing"),
        pytest.param(2, claim("ReadWriteOnce", "ReadOnlyMany"), id="shared for reading"),
        pytest.param(2, None, id="not there yet"),
    ],
)
def test_a_claim_that_pods_can_share_is_fine(replicas: int, found: dict[str, Any] | None) -> None:
    checked(replicas, found)


def test_several_pods_of_a_claim_that_one_node_mounts_are_refused() -> None:
    with pytest.raises(
        SpecError, match=r"weights is ReadWriteOnce.* set spec\.replicas or spec\.autoscaling\.maxReplicas to 1"
    ) as refused:
        checked(2, claim("ReadWriteOnce"))
    assert refused.value.reason == "ClaimNotShared"


def test_a_cache_that_several_pods_write_to_must_be_shared_for_writing() -> None:
    cached = {"source": "hf://org/repo", "cache": {"persistentVolumeClaim": {"claimName": "weights"}}}
    checked(2, claim("ReadWriteMany"), **cached)
    with pytest.raises(SpecError, match=r"use a claim that is ReadWriteMany$"):
        checked(2, claim("ReadOnlyMany"), **cached)
