"""The second kernel of decode attention: the parts of a context that `splits` programs walked, joined into one row of the answer.

softmax over all of a context from each part's largest score (top), sum of exp2(score − top) and sum of values weighted by it:
https://pytorch.org/blog/flash-decoding/. Always in the same order: the splits'.
"""

import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase
from octavo_kernels.gpu.attention_launch import padded_dims
from octavo_kernels.gpu.attention_tile import LOG2_E, NEVER, finished, log_sum
from octavo_kernels.page_layout import PageLayout


@triton.jit(do_not_specialize_on_alignment=["cu_q"])
def _join_kernel(
    sums: tl.tensor,
    tops: tl.tensor,
    sinks: tl.tensor,
    cu_q: tl.tensor,
    out: tl.tensor,
    log_sums: tl.tensor,
    heads: tl.constexpr,
    head_dim: tl.constexpr,
    queries: tl.constexpr,
    splits: tl.constexpr,
    splits_padded: tl.constexpr,
    dims_padded: tl.constexpr,
) -> None:
    """Grid (B · queries, Hq): one row of `out` from its parts."""
    row = tl.program_id(0)
    head = tl.program_id(1)
    sequence = row // queries
    query = row % queries
    first_token = tl.load(cu_q + sequence)
    if query < tl.load(cu_q + sequence + 1) - first_token:
        split = tl.arange(0, splits_padded)
        dims = tl.arange(0, dims_padded)
        is_split = split < splits
        is_dim = (dims < head_dim)[None, :]
        part_row = (row.to(tl.int64) * heads + head) * splits + split
        part_tops = tl.load(tops + part_row * 2, mask=is_split, other=NEVER)
        part_totals = tl.load(tops + part_row * 2 + 1, mask=is_split, other=0.0)
        part_sums = tl.load(
            sums + part_row[:, None] * head_dim + dims[None, :], mask=is_split[:, None] & is_dim, other=0.0
        )
        top = tl.max(part_tops, axis=0)
        weight = tl.math.exp2(part_tops - tl.where(top == NEVER, 0.0, top))
        acc = tl.sum(part_sums * weight[:, None], axis=0)
        total = tl.sum(part_totals * weight, axis=0)
        sink = None
        if sinks is not None:
            sink = (tl.load(sinks + head).to(tl.float32) * LOG2_E)[None]
        result = finished(acc[None, :], top[None], total[None], sink)
        out_at = out + ((first_token + query).to(tl.int64) * heads + head) * head_dim + dims[None, :]
        tl.store(out_at, result.to(out.dtype.element_ty), mask=is_dim)
        if log_sums is not None:
            at = (first_token + query).to(tl.int64) * heads + head + tl.arange(0, 1)
            tl.store(log_sums + at, log_sum(top[None], total[None], sink))


def join_parts(
    sums: Tensor | None,
    tops: Tensor | None,
    sinks: Tensor | None,
    cu_q: Tensor,
    out: Tensor,
    log_sums: Tensor | None,
    layout: PageLayout,
    rows: int,
    queries: int,
    splits: int,
) -> None:
    """sums fp32 `[rows = B · queries, Hq, splits, D]`, tops (top, total) `[rows, Hq, splits, 2]` → rows of out by cu_q, and, where
    given, of log_sums."""
    heads = out.shape[1]
    _join_kernel[(rows, heads)](
        sums, tops, sinks, cu_q, out, log_sums,
        **_join_constexprs(heads, layout, queries, splits), num_warps=4, enable_fp_fusion=True,
    )  # fmt: skip


def _join_constexprs(heads: int, layout: PageLayout, queries: int, splits: int) -> dict[str, object]:
    return {
        "heads": heads,
        "head_dim": layout.head_dim,
        "queries": queries,
        "splits": splits,
        "splits_padded": triton.next_power_of_2(splits),
        "dims_padded": padded_dims(layout),
    }


def join_case(layout: PageLayout, heads: int, queries: int, splits: int, *, log_sums: bool = False) -> AotCase:
    """Of a bf16 model without sinks."""
    signature = {"sums": "*fp32", "tops": "*fp32", "cu_q": "*i32", "out": "*bf16"}
    constexprs = {"sinks": None, **_join_constexprs(heads, layout, queries, splits)}
    if not log_sums:
        return AotCase("decode_attention-join", _join_kernel, signature, {"log_sums": None, **constexprs})
    signature |= {"out": "*fp32", "log_sums": "*fp32"}
    return AotCase("decode_attention-join_log_sums", _join_kernel, signature, constexprs)
