"""`spec.runtime`: the settings of the runtime in each pod. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator.spec.amounts import amount
from octavo_operator.spec.errors import SpecError


@dataclasses.dataclass(frozen=True)
class Runtime:
    """None leaves the runtime's default."""

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


def parse(spec: Mapping[str, Any], default_image: str | None) -> Runtime:
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
        kv_cache_memory=amount("spec.runtime.kvCache.memory", spec.get("kvCache", {}).get("memory")),
        extra_args=tuple(spec.get("extraArgs", ())),
    )
