"""The forms of KV pages that an engine has, from the configuration: the service's own, and one that the memory ladder can give new
requests."""

import torch

from octavo_kernels.kv_form import KvForm, KvKind
from octavo_runtime.config import ConfigError, ServeConfig

_KINDS: dict[str, KvKind] = {"auto": "dense", "bfloat16": "dense", "int8": "int8", "fp8": "fp8"}
_REDUCED: KvKind = "int8"  # closer to bf16 than e4m3 with a scale for each token, and on AVX2 faster


def kv_forms(config: ServeConfig, dense_page_tokens: int) -> tuple[KvForm, ...]:
    """The form of requests at level 0, then, where lossy steps are allowed, the one of requests that come at level 6.

    `dense_page_tokens`: of a page behind `--block-size auto`; 8-bit keys and values fill twice as many tokens into its bytes.
    """
    keys, values = _KINDS[config.kv_cache_dtype], _KINDS[_values_dtype(config)]
    both_narrow = "dense" not in (keys, values)
    if config.block_size == "auto":
        own = KvForm(2 * dense_page_tokens if both_narrow else dense_page_tokens, keys, values)
    else:
        own = KvForm(int(config.block_size), keys, values)
    if config.allow_lossy and own.is_dense:
        return own, KvForm(2 * own.page_size, _REDUCED, _REDUCED)
    return (own,)


def check_dense_type(config: ServeConfig, dtype: torch.dtype) -> None:
    """Raise ConfigError where bfloat16 was asked for and what is dense has another type, the model's."""
    asked = config.kv_cache_dtype, _values_dtype(config)
    if "bfloat16" in asked and dtype != torch.bfloat16:
        name = str(dtype).removeprefix("torch.")
        flag = "--kv-cache-dtype" if asked[0] == "bfloat16" else "--kv-cache-dtype-v"
        raise ConfigError(f"{flag} bfloat16: the model runs in {name}: say auto, or set --dtype bfloat16")


def kv_dtype_name(form: KvForm, dtype: torch.dtype) -> str:
    """What keys and values are kept as, by the flag's words: `int8`, or `bfloat16/int8` where they differ."""
    dense = str(dtype).removeprefix("torch.")
    names = [dense if kind == "dense" else kind for kind in (form.keys, form.values)]
    return names[0] if names[0] == names[1] else "/".join(names)


def _values_dtype(config: ServeConfig) -> str:
    return config.kv_cache_dtype if config.kv_cache_dtype_v == "auto" else config.kv_cache_dtype_v
