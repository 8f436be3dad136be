"""SiLU(gate) · up of the concatenated `[gate | up]` rows (https://arxiv.org/abs/2002.05202).

`reference.silu_mul_by_exp` defines it, with its roundings: SiLU in fp32, rounded to the type of x, then the product.
"""

import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase

# Values of a program, and its warps. Not measured yet: 8 values a thread are one 16-byte load of each half.
_TILE, _WARPS = 1024, 4


@triton.jit
def silu_mul_kernel(
    x_ptr: tl.tensor,
    out_ptr: tl.tensor,
    width: tl.constexpr,
    x_token: tl.constexpr,  # strides, in elements
    out_token: tl.constexpr,
    tile: tl.constexpr,
) -> None:
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * tile + tl.arange(0, tile)
    inside = column < width
    gate = tl.load(x_ptr + token * x_token + column, mask=inside, other=0.0)
    up = tl.load(x_ptr + token * x_token + width + column, mask=inside, other=0.0).to(tl.float32)
    wide = gate.to(tl.float32)
    silu = (wide / (1.0 + tl.exp(-wide))).to(gate.dtype).to(tl.float32)
    tl.store(out_ptr + token * out_token + column, (silu * up).to(gate.dtype), mask=inside)


def silu_mul(x: Tensor, out: Tensor) -> None:
    """x `[T, 2N]` → out `[T, N]`, of one type, rows contiguous."""
    tokens, width = out.shape
    assert x.shape == (tokens, 2 * width)
    assert x.stride(1) == out.stride(1) == 1
    if tokens == 0:
        return
    silu_mul_kernel[(tokens, triton.cdiv(width, _TILE))](
        x,
        out,
        width=width,
        x_token=x.stride(0),
        out_token=out.stride(0),
        tile=_TILE,
        num_warps=_WARPS,
        enable_fp_fusion=True,
    )


def aot_cases() -> list[AotCase]:
    """Llama 3.1 8B: 14336 gates."""
    sizes = {"width": 14336, "x_token": 2 * 14336, "out_token": 14336, "tile": _TILE}
    return [
        AotCase(
            "silu_mul-14336",
            silu_mul_kernel,
            {"x_ptr": "*bf16", "out_ptr": "*bf16"},
            dict(sizes),
            num_warps=_WARPS,
        )
    ]
