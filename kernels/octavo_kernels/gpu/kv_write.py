"""Keys and values of a step into pages: k, v `[T, Hkv, D]` → slot `slot_map[t]` = page · page_size + offset of each token.

Formats and the layout of a page: `octavo_kernels/page_layout.py`. In `fp8_token` a scale is the token's largest magnitude / 448,
rounded to fp16; the stored byte is e4m3(x · (1 / scale)), all in fp32. In `int8_token` it is the magnitude / 127 and the integer.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase
from octavo_kernels.gpu.kv_format import E4M3_MAX, INT8_MAX, encode_e4m3, encode_int8, token_scales
from octavo_kernels.page_layout import KvFormat, PageLayout


@triton.jit(do_not_specialize_on_alignment=["slot_map"])
def _kv_write_kernel(
    k: tl.tensor,
    v: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    head_scales: tl.tensor,
    slot_map: tl.tensor,
    token_stride: tl.constexpr,
    kv_heads: tl.constexpr,
    head_dim: tl.constexpr,
    page_size: tl.constexpr,
    page_stride: tl.constexpr,
    scale_stride: tl.constexpr,
    scale_begin: tl.constexpr,
    heads_padded: tl.constexpr,
    dims_padded: tl.constexpr,
    kv_format: tl.constexpr,
) -> None:
    """One program a token: the rows of all heads, keys (half 0), then values (half 1)."""
    token = tl.program_id(0).to(tl.int64)
    place = tl.load(slot_map + token)
    page = place // page_size
    slot = (place % page_size).to(tl.int32)
    heads = tl.arange(0, heads_padded)
    dims = tl.arange(0, dims_padded)
    is_head = heads < kv_heads
    real = is_head[:, None] & (dims < head_dim)[None, :]
    for half in tl.static_range(2):
        rows = k if half == 0 else v
        x = tl.load(rows + token * token_stride + heads[:, None] * head_dim + dims[None, :], mask=real, other=0.0)
        row = (heads * 2 + half) * page_size + slot
        target = values + page * page_stride + row[:, None] * head_dim + dims[None, :]
        if kv_format == "dense":
            tl.store(target, x, mask=real)
        else:
            wide = x.to(tl.float32)
            if (kv_format == "fp8_token") or (kv_format == "int8_token"):
                scale = token_scales(wide, E4M3_MAX if kv_format == "fp8_token" else INT8_MAX)
                tl.store(scales + page * scale_stride + scale_begin + row, scale, mask=is_head)
                divisor = scale.to(tl.float32)
            else:
                divisor = tl.load(head_scales + half * kv_heads + heads, mask=is_head, other=1.0)
            inverse = tl.math.div_rn(1.0, divisor)
            if kv_format == "int8_token":
                tl.store(target, encode_int8(wide * inverse[:, None]), mask=real)
            else:
                tl.store(target, encode_e4m3(wide * inverse[:, None]), mask=real)


def kv_write(
    k: Tensor, v: Tensor, kv_layer: Tensor, slot_map: Tensor, layout: PageLayout, head_scales: Tensor | None = None
) -> None:
    """Store k, v `[T, Hkv, D]` (views with equal token strides, heads adjacent) at slot_map int64 `[T]`, in place.

    Tokens that share a slot (padding, all of it in page 0) leave one of them there. head_scales fp32 `[2, Hkv]`: the format
    `fp8_head` needs it, no other takes it. No host synchronisation, no allocation.
    """
    tokens, kv_heads, head_dim = k.shape
    if (kv_heads, head_dim) != (layout.kv_heads, layout.head_dim) or k.shape != v.shape or k.stride() != v.stride():
        raise ValueError(f"k {tuple(k.shape)} and v {tuple(v.shape)} must be [T, {layout.kv_heads}, {layout.head_dim}]")
    if k.stride()[1:] != (head_dim, 1):
        raise ValueError(f"the heads of k and v must be adjacent, not {k.stride()[1:]} apart")
    if (head_scales is None) != (layout.format != "fp8_head"):
        raise ValueError(f"head_scales belong to the format fp8_head, and this layer is {layout.format}")
    if tokens:
        values, scales = layout.values(kv_layer), layout.scales(kv_layer)
        _kv_write_kernel[(tokens,)](
            k, v, values, scales, head_scales, slot_map, **_constexprs(layout, kv_layer.stride(0), k.stride(0)),
            num_warps=4, enable_fp_fusion=False,
        )  # fmt: skip


def _constexprs(layout: PageLayout, page_distance_bytes: int, token_stride: int) -> dict[str, object]:
    return {
        "token_stride": token_stride,
        "kv_heads": layout.kv_heads,
        "head_dim": layout.head_dim,
        "page_size": layout.page_size,
        "page_stride": page_distance_bytes // layout.value_dtype.itemsize,
        "scale_stride": page_distance_bytes // torch.float16.itemsize,
        "scale_begin": layout.scales_begin_bytes // torch.float16.itemsize,
        "heads_padded": triton.next_power_of_2(layout.kv_heads),
        "dims_padded": triton.next_power_of_2(layout.head_dim),
        "kv_format": layout.format,
    }


def aot_cases() -> list[AotCase]:
    """The Llama-3 8B shape (8 KV heads of 128 in a qkv buffer of 48 heads) in each format."""
    return [_case("dense", "*bf16"), _case("fp8_head", "*u8"), _case("fp8_token", "*u8"), _case("int8_token", "*u8")]


def _case(kv_format: KvFormat, values: str) -> AotCase:
    layout = PageLayout(8, 128, 16, torch.bfloat16, kv_format)
    scales = {"dense": {}, "fp8_head": {"head_scales": "*fp32"}}.get(kv_format, {"scales": "*fp16"})
    absent = {key: None for key in ("scales", "head_scales") if key not in scales}
    signature = {"k": "*bf16", "v": "*bf16", "values": values, **scales, "slot_map": "*i64"}
    constexprs = {**absent, **_constexprs(layout, layout.page_bytes, 48 * 128)}
    return AotCase(f"kv_write-{kv_format}", _kv_write_kernel, signature, constexprs, enable_fp_fusion=False)
