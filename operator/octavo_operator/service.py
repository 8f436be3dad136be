"""An InferenceService's spec as values. The CRD's schema and CEL rules have refused most of what cannot be; what they cannot know
(no image anywhere, a quantity too fine) is a SpecError here and becomes the condition SpecValid=False.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from octavo_operator import quantity

Device = Literal["gpu", "cpu"]
Strategy = Literal["Auto", "Surge", "OneByOne", "Recreate"]


class SpecError(ValueError):
    """The spec cannot be served. `reason` is the condition's word; the text names the field and the remedy."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclasses.dataclass(frozen=True, order=True)
class Key:
    """What names one InferenceService in a cluster, and its children."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the weights lie: `path` in the runtime image, or below the mounted `claim`."""

    path: str
    claim: str | None = None


@dataclasses.dataclass(frozen=True)
class Gpu:
    resource: str = "nvidia.com/gpu"
    node_selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()


@dataclasses.dataclass(frozen=True)
class Runtime:
    """Settings of the runtime; None leaves the runtime's default."""

    image: str
    block_size: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    scheduler_delay_ms: int | None = None
    chunked_prefill: bool | None = None
    prefix_caching: bool | None = None
    kv_cache_memory: str | None = None
    extra_args: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Service:
    """One InferenceService as the rest of the operator sees it. Quantities are canonical text."""

    key: Key
    uid: str
    generation: int
    source: Source
    served_name: str
    runtime: Runtime
    device: Device = "gpu"
    dtype: str | None = None
    tensor: int = 1
    gpu: Gpu = Gpu()
    cpu: str | None = None
    memory: str | None = None
    replicas: int = 1
    suspend: bool = False
    strategy: Strategy = "Auto"
    drain_timeout_s: int = 60


def parse(body: Mapping[str, Any], default_image: str | None) -> Service:
    """The Service that an InferenceService's `body` describes. Raises SpecError."""
    metadata, spec = body["metadata"], body["spec"]
    resources = spec.get("resources", {})
    rollout = spec.get("rollout", {})
    return Service(
        key=Key(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        generation=metadata["generation"],
        source=_source(spec["model"]["source"]),
        served_name=spec["model"].get("servedName", metadata["name"]),
        runtime=_runtime(spec.get("runtime", {}), default_image),
        device=spec.get("device", "gpu"),
        dtype=spec["model"].get("dtype"),
        tensor=spec.get("parallelism", {}).get("tensor", 1),
        gpu=_gpu(spec.get("gpu", {})),
        cpu=_quantity("spec.resources.cpu", resources.get("cpu")),
        memory=_quantity("spec.resources.memory", resources.get("memory")),
        replicas=spec.get("replicas", 1),
        suspend=spec.get("suspend", False),
        strategy=rollout.get("strategy", "Auto"),
        drain_timeout_s=rollout.get("drainTimeoutSeconds", 60),
    )


def check_claim(service: Service, claim: Mapping[str, Any] | None) -> None:
    """Raises SpecError where several pods are wanted of a claim that only one node can mount. A missing claim is waited for."""
    if claim is None or service.replicas < 2:
        return
    modes = set(claim["spec"].get("accessModes", ()))
    if not modes & {"ReadWriteMany", "ReadOnlyMany"}:
        raise SpecError(
            "ClaimNotShared",
            f"the claim {service.source.claim} of spec.model.source is {', '.join(sorted(modes))}, which pods on several nodes "
            f"cannot mount: set spec.replicas to 1, or use a claim that is ReadWriteMany or ReadOnlyMany",
        )


def _source(text: str) -> Source:
    parts = urlsplit(text)
    if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return Source(path=text.removeprefix("file://"))
    if parts.scheme == "pvc" and parts.netloc and len(parts.path) > 1:
        return Source(path=text.removeprefix(f"pvc://{parts.netloc}/"), claim=parts.netloc)
    raise SpecError("BadSource", f"spec.model.source '{text}' must be file:///path or pvc://claim/path: correct it")


def _runtime(spec: Mapping[str, Any], default_image: str | None) -> Runtime:
    image = spec.get("image", default_image)
    if not image:
        raise SpecError(
            "NoRuntimeImage", "no runtime image is known: set spec.runtime.image, or the chart's runtime.image"
        )
    return Runtime(
        image=image,
        block_size=spec.get("blockSize"),
        max_num_seqs=spec.get("maxNumSeqs"),
        max_num_batched_tokens=spec.get("maxNumBatchedTokens"),
        max_model_len=spec.get("maxModelLen"),
        scheduler_delay_ms=spec.get("schedulerDelayMs"),
        chunked_prefill=spec.get("chunkedPrefill"),
        prefix_caching=spec.get("prefixCaching"),
        kv_cache_memory=_quantity("spec.runtime.kvCache.memory", spec.get("kvCache", {}).get("memory")),
        extra_args=tuple(spec.get("extraArgs", ())),
    )


def _gpu(spec: Mapping[str, Any]) -> Gpu:
    return Gpu(
        resource=spec.get("resource", "nvidia.com/gpu"),
        node_selector=spec.get("nodeSelector", {}),
        tolerations=tuple(spec.get("tolerations", ())),
    )


def _quantity(field: str, value: str | int | None) -> str | None:
    if value is None:
        return None
    try:
        return quantity.canonical(value)
    except quantity.QuantityError as error:
        raise SpecError("BadQuantity", f"{field}: {error}") from error
