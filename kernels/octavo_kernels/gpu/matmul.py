"""A linear layer whose rows do not depend on their company: x · weightᵀ (+ addend), with one tile size and no split of K.

A row's bits depend on how its sum over K is ordered, which the tile size and the matrix instruction decide. Libraries choose both
by the number of rows; here they are the same for every batch, and a row is summed by one program from K = 0 upwards. This is what
`--batch-invariant` rests on (https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/).
"""

import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase

# Not measured yet: 64 rows are the least that Hopper's warp-group instruction takes, so that small batches waste little.
_TILE = {"tile_m": 64, "tile_n": 128, "tile_k": 64}
_WARPS, _STAGES = 4, 3
# Row tiles that run side by side on the same columns, so that a column tile of the weight stays in L2.
_GROUP_M = 8


@triton.jit(do_not_specialize=["rows"])
def matmul_kernel(
    x_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    addend_ptr: tl.tensor,
    out_ptr: tl.tensor,
    rows: tl.int32,
    columns: tl.constexpr,
    depth: tl.constexpr,
    x_row: tl.constexpr,  # strides, in elements
    weight_row: tl.constexpr,
    addend_row: tl.constexpr,  # 0: one addend for all rows
    out_row: tl.constexpr,
    tile_m: tl.constexpr,
    tile_n: tl.constexpr,
    tile_k: tl.constexpr,
    group_m: tl.constexpr,
    has_addend: tl.constexpr,
) -> None:
    tiles_m, tiles_n = tl.cdiv(rows, tile_m), tl.cdiv(columns, tile_n)
    group = tl.program_id(0) // (group_m * tiles_n)
    in_group = tl.program_id(0) % (group_m * tiles_n)
    group_rows = tl.minimum(tiles_m - group * group_m, group_m)
    row = (group * group_m + in_group % group_rows) * tile_m + tl.arange(0, tile_m).to(tl.int64)
    column = (in_group // group_rows) * tile_n + tl.arange(0, tile_n).to(tl.int64)
    k = tl.arange(0, tile_k)
    x_at = x_ptr + row[:, None] * x_row + k[None, :]
    weight_at = weight_ptr + column[None, :] * weight_row + k[:, None]
    total = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    for start in range(0, depth, tile_k):
        left = depth - start
        x = tl.load(x_at + start, mask=(row[:, None] < rows) & (k[None, :] < left), other=0.0)
        weight = tl.load(weight_at + start, mask=(column[None, :] < columns) & (k[:, None] < left), other=0.0)
        total = tl.dot(x, weight, total, input_precision="ieee")
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    if has_addend:
        total += tl.load(addend_ptr + row[:, None] * addend_row + column[None, :], mask=inside, other=0.0).to(
            tl.float32
        )
    tl.store(out_ptr + row[:, None] * out_row + column[None, :], total.to(out_ptr.dtype.element_ty), mask=inside)


def matmul(x: Tensor, weight: Tensor, out: Tensor, addend: Tensor | None = None) -> None:
    """out `[M, N]` = x `[M, K]` · weight `[N, K]`ᵀ + addend (`[N]` or `[M, N]`), summed in fp32; last dimensions contiguous."""
    rows, depth = x.shape
    columns = weight.shape[0]
    assert weight.shape[1] == depth
    assert out.shape == (rows, columns)
    assert x.stride(1) == weight.stride(1) == out.stride(1) == 1
    assert addend is None or (addend.stride(-1) == 1 and addend.shape[-1] == columns)
    if rows == 0:
        return
    matmul_kernel[(triton.cdiv(rows, _TILE["tile_m"]) * triton.cdiv(columns, _TILE["tile_n"]),)](
        x,
        weight,
        x if addend is None else addend,
        out,
        rows,
        columns=columns,
        depth=depth,
        x_row=x.stride(0),
        weight_row=weight.stride(0),
        addend_row=addend.stride(0) if addend is not None and addend.dim() == 2 else 0,
        out_row=out.stride(0),
        group_m=_GROUP_M,
        has_addend=addend is not None,
        num_warps=_WARPS,
        num_stages=_STAGES,
        enable_fp_fusion=True,
        **_TILE,
    )


def aot_cases() -> list[AotCase]:
    """The QKV projection of Llama 3.1 8B, with a bias."""
    pointers = dict.fromkeys(("x_ptr", "weight_ptr", "addend_ptr", "out_ptr"), "*bf16")
    strides = {"x_row": 4096, "weight_row": 4096, "addend_row": 0, "out_row": 6144}
    sizes = {"columns": 6144, "depth": 4096, **strides, **_TILE, "group_m": _GROUP_M, "has_addend": True}
    signature = {**pointers, "rows": "i32"}
    return [AotCase("matmul-6144_bias", matmul_kernel, signature, sizes, num_warps=_WARPS, num_stages=_STAGES)]
