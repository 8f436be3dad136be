"""`spec.runtime`: the settings of the runtime in each pod. Pure."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from octavo_operator.spec.amounts import amount
from octavo_operator.spec.errors import SpecError

# Flags that were once only to be had by extraArgs: they still are, where their field is not set.
FLAGS_OF_FIELDS = {
    "allow-lossy": "degradation.allowLossy",
    "kv-budget-tokens": "kvCache.selective.budgetTokens",
    "kv-cache-dtype": "kvCache.dtype",
    "kv-tier-disk": "kvCache.tiers.disk",
    "kv-tier-disk-size": "kvCache.tiers.disk",
    "kv-tier-memory": "kvCache.tiers.cpu",
    "memory-ladder": "degradation.enabled",
    "warmup-manifest": "warmup.manifestConfigMap",
    "warmup-max-seconds": "warmup.maxSeconds",
    "warmup-sequences": "warmup.sequences",
}


@dataclasses.dataclass(frozen=True)
class KvCache:
    """`cpu_tier` and `disk_tier` are bytes that keep pages which the pool reuses; amounts are canonical quantities."""

    memory: str | None = None
    dtype: str | None = None
    cpu_tier: str | None = None
    disk_tier: str | None = None
    budget_tokens: int | None = None


@dataclasses.dataclass(frozen=True)
class Warmup:
    """`manifest` is the ConfigMap with the shapes that traffic met before."""

    sequences: int | None = None
    max_s: int | None = None
    manifest: str | None = None


@dataclasses.dataclass(frozen=True)
class Degradation:
    enabled: bool | None = None
    allow_lossy: bool | None = None


@dataclasses.dataclass(frozen=True)
class Runtime:
    """None leaves the runtime's default."""

    image: str
    block_size: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    gpu_memory_percent: int | None = None
    scheduler_delay_ms: int | None = None
    chunked_prefill: bool | None = None
    prefix_caching: bool | None = None
    kv_cache: KvCache = dataclasses.field(default_factory=KvCache)
    warmup: Warmup = dataclasses.field(default_factory=Warmup)
    degradation: Degradation = dataclasses.field(default_factory=Degradation)
    extra_args: tuple[str, ...] = ()


def parse(spec: Mapping[str, Any], default_image: str | None) -> Runtime:
    image = spec.get("image", default_image)
    if not image:
        raise SpecError(
            "NoRuntimeImage", "no runtime image is known: set spec.runtime.image, or the chart's runtime.image"
        )
    for flag, field in _set_twice(spec):
        raise SpecError(
            "SetTwice", f"spec.runtime.extraArgs sets --{flag}, and spec.runtime.{field} does too: remove one of them"
        )
    return Runtime(
        image=image,
        block_size=spec.get("blockSize"),
        max_num_seqs=spec.get("maxNumSeqs"),
        max_num_batched_tokens=spec.get("maxNumBatchedTokens"),
        max_model_len=spec.get("maxModelLen"),
        gpu_memory_percent=spec.get("gpuMemoryPercent"),
        scheduler_delay_ms=spec.get("schedulerDelayMs"),
        chunked_prefill=spec.get("chunkedPrefill"),
        prefix_caching=spec.get("prefixCaching"),
        kv_cache=_kv_cache(spec.get("kvCache", {})),
        warmup=_warmup(spec.get("warmup", {})),
        degradation=_degradation(spec.get("degradation", {})),
        extra_args=tuple(spec.get("extraArgs", ())),
    )


def _kv_cache(spec: Mapping[str, Any]) -> KvCache:
    tiers = spec.get("tiers", {})
    cpu, disk = tiers.get("cpu", {}), tiers.get("disk", {})
    return KvCache(
        memory=amount("spec.runtime.kvCache.memory", spec.get("memory")),
        dtype=spec.get("dtype"),
        cpu_tier=amount("spec.runtime.kvCache.tiers.cpu.memory", cpu.get("memory")),
        disk_tier=amount("spec.runtime.kvCache.tiers.disk.size", disk.get("size")),
        budget_tokens=spec.get("selective", {}).get("budgetTokens"),
    )


def _warmup(spec: Mapping[str, Any]) -> Warmup:
    return Warmup(spec.get("sequences"), spec.get("maxSeconds"), spec.get("manifestConfigMap"))


def _degradation(spec: Mapping[str, Any]) -> Degradation:
    return Degradation(spec.get("enabled"), spec.get("allowLossy"))


def _set_twice(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for argument in spec.get("extraArgs", ()):
        flag = argument.partition("=")[0].removeprefix("--").removeprefix("no-")
        if flag in FLAGS_OF_FIELDS and _is_set(spec, FLAGS_OF_FIELDS[flag]):
            yield flag, FLAGS_OF_FIELDS[flag]


def _is_set(spec: Mapping[str, Any], field: str) -> bool:
    below: Any = spec
    for name in field.split("."):
        if name not in below:
            return False
        below = below[name]
    return True
