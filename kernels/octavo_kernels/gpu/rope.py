"""Rotary embedding of queries and keys, in place in the QKV buffer, halves convention (https://arxiv.org/abs/2104.09864).

`reference.rope` defines it. The tables are indexed by position inside the kernel, so a step gathers nothing beforehand; the
products are computed in fp32 and rounded once.
"""

import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase

# Heads that a program turns, and its warps. Not measured yet: 8 heads of 128 are two 16-byte loads a thread.
_HEADS, _WARPS = 8, 2


@triton.jit
def rope_kernel(
    qkv_ptr: tl.tensor,
    cos_ptr: tl.tensor,
    sin_ptr: tl.tensor,
    pos_ptr: tl.tensor,
    heads: tl.constexpr,  # of queries and keys together: they stand first in a token's row
    qkv_token: tl.constexpr,  # strides, in elements
    qkv_head: tl.constexpr,
    half: tl.constexpr,
    tile_heads: tl.constexpr,
    tile_half: tl.constexpr,
) -> None:
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * tile_heads + tl.arange(0, tile_heads)[:, None]
    column = tl.arange(0, tile_half)[None, :]
    position = tl.load(pos_ptr + token).to(tl.int64)
    cos = tl.load(cos_ptr + position * half + column, mask=column < half, other=0.0)
    sin = tl.load(sin_ptr + position * half + column, mask=column < half, other=0.0)
    inside = (head < heads) & (column < half)
    first_at = qkv_ptr + token * qkv_token + head * qkv_head + column
    first = tl.load(first_at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(first_at + half, mask=inside, other=0.0).to(tl.float32)
    kind = qkv_ptr.dtype.element_ty
    tl.store(first_at, (first * cos - second * sin).to(kind), mask=inside)
    tl.store(first_at + half, (second * cos + first * sin).to(kind), mask=inside)


def rope(qkv: Tensor, cos: Tensor, sin: Tensor, pos: Tensor, rotated_heads: int) -> None:
    """Turn the first `rotated_heads` (= Hq + Hkv) heads of each token by its position, in place.

    qkv `[T, Hq + 2·Hkv, D]` with a contiguous last dimension; cos and sin fp32 `[positions, D/2]`, contiguous; pos int64 `[T]`.
    """
    tokens, _, width = qkv.shape
    assert qkv.stride(2) == 1
    assert cos.is_contiguous()
    assert sin.is_contiguous()
    assert cos.shape[1] * 2 == width
    if tokens == 0:
        return
    half = width // 2
    rope_kernel[(tokens, triton.cdiv(rotated_heads, _HEADS))](
        qkv,
        cos,
        sin,
        pos,
        heads=rotated_heads,
        qkv_token=qkv.stride(0),
        qkv_head=qkv.stride(1),
        half=half,
        tile_heads=_HEADS,
        tile_half=triton.next_power_of_2(half),
        num_warps=_WARPS,
        enable_fp_fusion=True,
    )


def aot_cases() -> list[AotCase]:
    """Llama 3.1 8B: 32 query and 8 KV heads of 128."""
    signature = {"qkv_ptr": "*bf16", "cos_ptr": "*fp32", "sin_ptr": "*fp32", "pos_ptr": "*i64"}
    sizes = {"heads": 40, "qkv_token": 48 * 128, "qkv_head": 128, "half": 64, "tile_heads": _HEADS, "tile_half": 64}
    return [AotCase("rope-128", rope_kernel, signature, dict(sizes), num_warps=_WARPS)]
