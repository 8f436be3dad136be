"""Attention of at most 8 new tokens a sequence over its KV pages: softmax(q·kᵀ·scale [capped] | sinks) · v.

Reading the pages is the cost, so each is read once: the queries of a sequence and the G query heads of one KV head are rows of one
tile. One program takes one KV head of one sequence and one of `splits` equal parts of its context (in whole tiles); a second kernel
joins the parts (flash decoding, https://pytorch.org/blog/flash-decoding/). With one split there is nothing to join.

The split count is an argument, not a function of the lengths: a CUDA graph keeps its grid. A sequence's bits depend on its own
q, pages, q_len, kv_len, on `splits` and on the launch's tile; never on the other sequences, their number or the page ids.
"""

import dataclasses

import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase
from octavo_kernels.gpu.attention_launch import (
    UNALIGNED,
    Launch,
    aot_case,
    attention_constexprs,
    check_attention,
    padded_dims,
)
from octavo_kernels.gpu.attention_tile import LOG2_E, NEVER, finished, log_sum, walk
from octavo_kernels.gpu.decode_join import join_case, join_parts
from octavo_kernels.page_layout import PageLayout
from octavo_kernels.paged_batch import AttentionOptions, PagedBatch

MAX_QUERIES = 8


@triton.jit(do_not_specialize=["table_stride"], do_not_specialize_on_alignment=UNALIGNED)
def _decode_kernel(
    q: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    head_scales: tl.tensor,
    sinks: tl.tensor,
    cu_q: tl.tensor,
    kv_len: tl.tensor,
    page_table: tl.tensor,
    table_stride: tl.tensor,
    out: tl.tensor,
    sums: tl.tensor,
    tops: tl.tensor,
    log_sums: tl.tensor,
    scale: tl.tensor,
    token_stride: tl.constexpr,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    head_dim: tl.constexpr,
    page_size: tl.constexpr,
    page_stride: tl.constexpr,
    scale_stride: tl.constexpr,
    scale_begin: tl.constexpr,
    kv_format: tl.constexpr,
    window: tl.constexpr,
    softcap: tl.constexpr,
    queries: tl.constexpr,
    splits: tl.constexpr,
    rows_padded: tl.constexpr,
    dims_padded: tl.constexpr,
    tile: tl.constexpr,
    dot_kind: tl.constexpr,
) -> None:
    """Grid (B, Hkv, splits)."""
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    group: tl.constexpr = heads // kv_heads
    first_token = tl.load(cu_q + sequence)
    q_len = tl.load(cu_q + sequence + 1) - first_token
    context = tl.load(kv_len + sequence)

    rows = tl.arange(0, rows_padded)
    dims = tl.arange(0, dims_padded)
    query = rows // group
    head = kv_head * group + rows % group
    token = (first_token + query).to(tl.int64)
    is_row = query < q_len
    real = is_row[:, None] & (dims < head_dim)[None, :]
    q_at = q + token[:, None] * token_stride + head[:, None] * head_dim + dims[None, :]
    q_tile = tl.load(q_at, mask=real, other=0.0).to(dot_kind)
    own_slot = tl.where(is_row, context - q_len + query, -1)

    first = 0
    if window != 0:
        first = tl.maximum(context - q_len - window + 1, 0) // tile * tile
    part = tl.cdiv(tl.cdiv(context - first, tile), splits) * tile
    begin = first + split * part
    head_rows = kv_head * 2 * page_size
    key_scales = scales
    if (kv_format == "fp8_token") or (kv_format == "int8_token"):
        key_scales = scales + scale_begin + head_rows
    if kv_format == "fp8_head":
        scale *= tl.load(head_scales + kv_head)
    acc, top, total = walk(
        q_tile,
        own_slot,
        tl.zeros([rows_padded, dims_padded], dtype=tl.float32),
        tl.full([rows_padded], NEVER, dtype=tl.float32),
        tl.zeros([rows_padded], dtype=tl.float32),
        begin,
        tl.minimum(begin + part, context),
        page_table + sequence.to(tl.int64) * table_stride,
        values + head_rows * head_dim,
        key_scales,
        scale,
        head_dim,
        page_size,
        page_stride,
        scale_stride,
        kv_format,
        window,
        softcap,
        tile,
        dims_padded,
        dot_kind,
        True,
    )
    if kv_format == "fp8_head":
        acc *= tl.load(head_scales + kv_heads + kv_head)
    if splits == 1:
        sink = None
        if sinks is not None:
            sink = tl.load(sinks + head, mask=is_row, other=0.0).to(tl.float32) * LOG2_E
        result = finished(acc, top, total, sink)
        out_at = out + (token[:, None] * heads + head[:, None]) * head_dim + dims[None, :]
        tl.store(out_at, result.to(out.dtype.element_ty), mask=real)
        if log_sums is not None:
            tl.store(log_sums + token * heads + head, log_sum(top, total, sink), mask=is_row)
    else:
        # A part: the row of [B · queries, Hq, splits] in `sums` (D wide) and in `tops` (top, total).
        part_row = ((sequence.to(tl.int64) * queries + query) * heads + head) * splits + split
        tl.store(sums + part_row[:, None] * head_dim + dims[None, :], acc, mask=real)
        tl.store(tops + part_row * 2, top, mask=is_row)
        tl.store(tops + part_row * 2 + 1, total, mask=is_row)


def decode_attention(
    q: Tensor,
    kv_layer: Tensor,
    batch: PagedBatch,
    layout: PageLayout,
    options: AttentionOptions,
    out: Tensor,
    queries: int = 1,
    splits: int = 1,
    workspace: Tensor | None = None,
    log_sums: Tensor | None = None,
) -> None:
    """q `[T, Hq, D]` (a view with adjacent heads) → out `[T, Hq, D]`, contiguous: the rows of the batch's tokens, no others.

    queries: the most new tokens that a sequence has, 1 … 8; more in `cu_q` would be left out. workspace: fp32 of
    `workspace_floats(…)` elements, for splits > 1; its content is of no account before and after. log_sums: fp32 `[T, Hq]`, of the
    same rows the natural logarithm of the sum of exp(score), for whoever joins answers. No host synchronisation, no
    allocation; the grid depends on shapes and `splits` alone.
    """
    check_attention(q, out, layout, options, log_sums)
    if not 1 <= queries <= MAX_QUERIES:
        raise ValueError(f"decode takes 1 to {MAX_QUERIES} new tokens a sequence, not {queries}: prefill takes more")
    heads, rows = q.shape[1], batch.size * queries
    sums, tops = None, None
    if splits > 1:
        needed = workspace_floats(rows, heads, layout.head_dim, splits)
        if workspace is None or workspace.dtype != torch.float32 or workspace.numel() < needed:
            raise ValueError(f"{splits} splits need a workspace of {needed} fp32 elements")
        sums, tops = workspace, workspace[rows * heads * splits * layout.head_dim :]
    if not rows:
        return
    launch = launch_of(layout, queries * heads // layout.kv_heads)
    _decode_kernel[(batch.size, layout.kv_heads, splits)](
        q, layout.values(kv_layer), layout.scales(kv_layer), options.head_scales, options.sinks,
        batch.cu_q, batch.kv_len, batch.page_table, batch.page_table.stride(0), out, sums, tops, log_sums, options.scale,
        **attention_constexprs(layout, options, heads, q.stride(0), kv_layer.stride(0)),
        queries=queries, splits=splits, rows_padded=launch.rows, tile=launch.tile,
        num_warps=launch.num_warps, num_stages=launch.num_stages, enable_fp_fusion=True,
    )  # fmt: skip
    if splits > 1:
        join_parts(sums, tops, options.sinks, batch.cu_q, out, log_sums, layout, rows, queries, splits)


def workspace_floats(rows: int, heads: int, head_dim: int, splits: int) -> int:
    """fp32 elements for the parts of rows = B · queries; none for one split."""
    return rows * heads * splits * (head_dim + 2) if splits > 1 else 0


def split_count(batch: int, kv_heads: int, processors: int) -> int:
    """A count for a graph of `batch` sequences: about two programs a processor, 1 to 32, a power of two.

    Two, so that one program's arithmetic hides behind another's loads; 32, as joining costs a row of fp32 a part.
    """
    wanted = 2 * processors // max(1, batch * kv_heads)
    return 1 << min(5, max(0, wanted.bit_length() - 1))


# (padded head dimension, bytes a value) → slots a tile. 8 KiB of keys: the choice that won on an H20 at D 128 in bf16 (32 slots, 4
# stages: flagos-ai/FlagGems#4667), and the same bytes for the others. Five stages, as two of them fetch page ids ahead: triton
# then keeps two tiles in flight, where four stages give one (seen in the compiled code), for 38 KiB of shared memory.
_TILES = {
    (64, 1): 128, (128, 1): 64, (256, 1): 32,
    (64, 2): 64, (128, 2): 32, (256, 2): 16,
    (64, 4): 32, (128, 4): 16, (256, 4): 16,
}  # fmt: skip


def launch_of(layout: PageLayout, rows: int) -> Launch:
    """rows: queries · G. More than 32 rows of sums need the registers of 8 warps."""
    tile = _TILES.get((padded_dims(layout), layout.value_dtype.itemsize), 32)
    padded = max(16, int(triton.next_power_of_2(rows)))
    return Launch(padded, tile, num_warps=4 if padded <= 32 else 8, num_stages=5)


def aot_cases() -> list[AotCase]:
    """32 query and 8 KV heads of 128 (Llama-3 8B): each format, drafts to verify; gpt-oss's options (64 heads of 64); the join."""
    llama = PageLayout(8, 128, 16, torch.bfloat16)
    small = PageLayout(8, 64, 16, torch.bfloat16)
    plain, all_options = AttentionOptions(1.0), AttentionOptions(1.0, window=128, softcap=50.0)
    return [
        _case("dense", llama, 32, plain),
        _case("fp8_head", dataclasses.replace(llama, page_size=32, format="fp8_head"), 32, plain),
        _case("fp8_token", dataclasses.replace(llama, page_size=32, format="fp8_token"), 32, plain),
        _case("int8_token", dataclasses.replace(llama, page_size=32, format="int8_token"), 32, plain),
        _case("8_queries", llama, 32, plain, queries=8),
        _case("window_softcap_sinks", small, 64, all_options, sinks=True, splits=1),
        _case("log_sums", llama, 32, plain, splits=1, log_sums=True),
        join_case(llama, 32, queries=1, splits=8),
        join_case(llama, 32, queries=1, splits=8, log_sums=True),
    ]


def _case(
    name: str,
    layout: PageLayout,
    heads: int,
    options: AttentionOptions,
    *,
    sinks: bool = False,
    queries: int = 1,
    splits: int = 8,
    log_sums: bool = False,
) -> AotCase:
    launch = launch_of(layout, queries * heads // layout.kv_heads)
    own = {"queries": queries, "splits": splits, "rows_padded": launch.rows, "tile": launch.tile}
    name = f"decode_attention-{name}"
    kinds = {"sinks": sinks, "parts": splits > 1, "log_sums": log_sums}
    return aot_case(name, _decode_kernel, layout, heads, options, launch, own, **kinds)
