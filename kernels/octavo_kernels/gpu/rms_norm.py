"""RMS norm with the residual addition before it: residual += delta; out = norm(residual) · weight.

`reference.rms_norm` defines it (https://arxiv.org/abs/1910.07467): in fp32, rounded to the type of x before the weight is applied.
One kernel for the hidden state (rows `[T, N]`) and for query and key heads (rows `[T, H, D]`, views into the QKV buffer).
"""

import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase

MAX_WIDTH = 16384
# Values that a program holds at once. Not measured yet: one row of a 4096 wide model, or 8 to 16 heads.
_TILE = 1024


@triton.jit(do_not_specialize=["rows"])
def rms_norm_kernel(
    x_ptr: tl.tensor,
    delta_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    out_ptr: tl.tensor,
    eps: tl.float32,
    rows: tl.int32,
    heads: tl.constexpr,  # rows of a token
    x_token: tl.constexpr,  # strides, in elements
    x_head: tl.constexpr,
    out_token: tl.constexpr,
    out_head: tl.constexpr,
    width: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_width: tl.constexpr,
    has_delta: tl.constexpr,
) -> None:
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)[:, None]
    column = tl.arange(0, tile_width)[None, :]
    inside = (row < rows) & (column < width)
    token, head = (row // heads).to(tl.int64), row % heads
    x_at = x_ptr + token * x_token + head * x_head + column
    x = tl.load(x_at, mask=inside, other=0.0)
    if has_delta:
        delta = tl.load(delta_ptr + row.to(tl.int64) * width + column, mask=inside, other=0.0)
        x = (x.to(tl.float32) + delta.to(tl.float32)).to(x.dtype)
        tl.store(x_at, x, mask=inside)
    wide = x.to(tl.float32)
    mean = tl.sum(wide * wide, axis=1, keep_dims=True) / width
    normed = (wide * tl.rsqrt(mean + eps)).to(x.dtype).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    out = (normed * weight).to(x.dtype)
    tl.store(out_ptr + token * out_token + head * out_head + column, out, mask=inside)


def rms_norm(x: Tensor, weight: Tensor, eps: float, out: Tensor, delta: Tensor | None = None) -> None:
    """out = norm(x + delta) · weight, and x += delta where a delta is given.

    x and out `[T, N]` or `[T, H, N]` of one type with a contiguous last dimension (out may be x), N ≤ 16384; weight `[N]`; delta
    contiguous, of x's shape. ValueError for a wider row.
    """
    width = x.shape[-1]
    if width > MAX_WIDTH:
        raise ValueError(f"rms_norm: rows of {width} values; at most {MAX_WIDTH} fit into one program")
    assert x.stride(-1) == out.stride(-1) == 1
    assert x.shape == out.shape
    assert delta is None or (delta.is_contiguous() and delta.shape == x.shape)
    heads = x.shape[1] if x.dim() == 3 else 1
    rows = x.shape[0] * heads
    if rows == 0:
        return
    tile = tile_for(width)
    rms_norm_kernel[(triton.cdiv(rows, tile["tile_rows"]),)](
        x,
        x if delta is None else delta,
        weight,
        out,
        eps,
        rows,
        heads=heads,
        x_token=x.stride(0),
        x_head=x.stride(1) if x.dim() == 3 else 0,
        out_token=out.stride(0),
        out_head=out.stride(1) if out.dim() == 3 else 0,
        width=width,
        has_delta=delta is not None,
        num_warps=warps_for(width),
        enable_fp_fusion=True,
        **tile,
    )


def tile_for(width: int) -> dict[str, int]:
    tile_width = triton.next_power_of_2(width)
    return {"tile_rows": max(1, _TILE // tile_width), "tile_width": tile_width}


def warps_for(width: int) -> int:
    """16 values a thread for wide rows. Not measured yet."""
    tile_width: int = triton.next_power_of_2(width)
    return min(16, max(4, tile_width // 512))


def aot_cases() -> list[AotCase]:
    """The hidden state of an 8B model with a residual, its query heads in the QKV buffer, and the widest row."""
    return [
        _case("rms_norm-4096_residual", width=4096, heads=1, token=4096, has_delta=True),
        _case("rms_norm-heads_128", width=128, heads=32, token=48 * 128, has_delta=False),
        _case("rms_norm-16384_residual", width=16384, heads=1, token=16384, has_delta=True),
    ]


def _case(name: str, width: int, heads: int, token: int, has_delta: bool) -> AotCase:
    pointers = dict.fromkeys(("x_ptr", "delta_ptr", "weight_ptr", "out_ptr"), "*bf16")
    strides = {"x_token": token, "x_head": width, "out_token": token, "out_head": width}
    return AotCase(
        name,
        rms_norm_kernel,
        {**pointers, "eps": "fp32", "rows": "i32"},
        {"heads": heads, **strides, "width": width, **tile_for(width), "has_delta": has_delta},
        num_warps=warps_for(width),
    )
