"""Two answers of attention, each over a part of the context, as one over both: `reference.merge_parts`.

A row is one head of one token. A part that saw nothing (its log-sum is −∞) is not read: it may hold anything.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase
from octavo_kernels.gpu.attention_tile import LOG2_E, NEVER

# Values that a program holds of each part. Not measured yet: 8 heads of 128.
_TILE = 1024


@triton.jit(do_not_specialize=["rows"])
def _merge_kernel(
    first: tl.tensor,
    first_log_sums: tl.tensor,
    second: tl.tensor,
    second_log_sums: tl.tensor,
    out: tl.tensor,
    rows: tl.int32,
    width: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_width: tl.constexpr,
) -> None:
    row = tl.program_id(0) * tile_rows + tl.arange(0, tile_rows)
    is_row = row < rows
    first_log = tl.load(first_log_sums + row, mask=is_row, other=NEVER)
    second_log = tl.load(second_log_sums + row, mask=is_row, other=NEVER)
    top = tl.maximum(first_log, second_log)
    base = tl.where(top == NEVER, 0.0, top)
    first_weight = tl.math.exp2((first_log - base) * LOG2_E)
    second_weight = tl.math.exp2((second_log - base) * LOG2_E)
    total = first_weight + second_weight
    column = tl.arange(0, tile_width)[None, :]
    inside = is_row[:, None] & (column < width)
    at = row.to(tl.int64)[:, None] * width + column
    left = tl.load(first + at, mask=inside & (first_log != NEVER)[:, None], other=0.0).to(tl.float32)
    right = tl.load(second + at, mask=inside & (second_log != NEVER)[:, None], other=0.0).to(tl.float32)
    both = left * first_weight[:, None] + right * second_weight[:, None]
    merged = both / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + at, merged.to(out.dtype.element_ty), mask=inside)


def merge_parts(first: Tensor, first_log_sums: Tensor, second: Tensor, second_log_sums: Tensor, out: Tensor) -> None:
    """first, second and out `[T, Hq, D]`, log_sums fp32 `[T, Hq]`, all contiguous; out may have another type, or be `first`."""
    rows, width = first.shape[0] * first.shape[1], first.shape[2]
    for part, log_sums in ((first, first_log_sums), (second, second_log_sums), (out, first_log_sums)):
        assert part.shape == first.shape
        assert part.is_contiguous()
        assert log_sums.shape == first.shape[:2]
        assert log_sums.is_contiguous()
        assert log_sums.dtype == torch.float32
    if rows:
        tile = _tile_for(width)
        _merge_kernel[(triton.cdiv(rows, tile["tile_rows"]),)](
            first,
            first_log_sums,
            second,
            second_log_sums,
            out,
            rows,
            width=width,
            num_warps=4,
            enable_fp_fusion=True,
            **tile,
        )


def _tile_for(width: int) -> dict[str, int]:
    tile_width = triton.next_power_of_2(width)
    return {"tile_rows": max(1, _TILE // tile_width), "tile_width": tile_width}


def aot_cases() -> list[AotCase]:
    """Parts in fp32 for a bf16 model with heads of 128."""
    pointers = dict.fromkeys(("first", "first_log_sums", "second", "second_log_sums"), "*fp32")
    signature = {**pointers, "out": "*bf16", "rows": "i32"}
    return [AotCase("merge_parts-128", _merge_kernel, signature, {"width": 128, **_tile_for(128)})]
