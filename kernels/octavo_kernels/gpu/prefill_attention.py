"""Attention of many new tokens a sequence over its KV pages: chunks of prompts, a ragged batch, the prefix already in pages.

softmax(q·kᵀ·scale [capped] | sinks) · v, causal over slots: new token i of a sequence sees the slots up to kv_len − q_len + i.
The new tokens' keys and values were written to pages before: pages are all that is read, whichever step computed them.

One program takes one KV head and a block of tokens: the G query heads of each are rows of one tile, so a page is read once for all
of them. Slots that every row of the block sees are walked without masks, then the causal edge with them; what lies beyond the edge
is not walked. The blocks with the most to walk start first. A row's bits depend on its own slots and on the launch's tile only: not
on the other sequences, and not on how its prompt is cut into chunks.
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
from octavo_kernels.page_layout import PageLayout
from octavo_kernels.paged_batch import AttentionOptions, PagedBatch


@triton.jit(do_not_specialize=["table_stride"], do_not_specialize_on_alignment=UNALIGNED)
def _prefill_kernel(
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
    rows_padded: tl.constexpr,
    dims_padded: tl.constexpr,
    tile: tl.constexpr,
    dot_kind: tl.constexpr,
) -> None:
    """Grid (blocks of the longest sequence, Hkv, B)."""
    kv_head = tl.program_id(1)
    sequence = tl.program_id(2)
    group: tl.constexpr = heads // kv_heads
    block_tokens: tl.constexpr = rows_padded // group
    first_token = tl.load(cu_q + sequence)
    q_len = tl.load(cu_q + sequence + 1) - first_token
    context = tl.load(kv_len + sequence)
    first_query = (tl.cdiv(q_len, block_tokens) - 1 - tl.program_id(0)) * block_tokens
    if first_query >= 0:
        rows = tl.arange(0, rows_padded)
        dims = tl.arange(0, dims_padded)
        query = first_query + rows // group
        head = kv_head * group + rows % group
        token = (first_token + query).to(tl.int64)
        is_row = (rows < block_tokens * group) & (query < q_len)
        real = is_row[:, None] & (dims < head_dim)[None, :]
        q_at = q + token[:, None] * token_stride + head[:, None] * head_dim + dims[None, :]
        q_tile = tl.load(q_at, mask=real, other=0.0).to(dot_kind)
        own_slot = tl.where(is_row, context - q_len + query, -1)

        first_slot = context - q_len + first_query  # the first row's own
        end = tl.minimum(first_slot + block_tokens, context)
        # With a window there is an edge on both sides: all of it is walked with masks.
        begin, masked_begin = 0, (first_slot + 1) // tile * tile
        if window != 0:
            begin = tl.maximum(first_slot - window + 1, 0) // tile * tile
            masked_begin = begin
        head_rows = kv_head * 2 * page_size
        pages = page_table + sequence.to(tl.int64) * table_stride
        keys = values + head_rows * head_dim
        key_scales = scales
        if (kv_format == "fp8_token") or (kv_format == "int8_token"):
            key_scales = scales + scale_begin + head_rows
        if kv_format == "fp8_head":
            scale *= tl.load(head_scales + kv_head)
        acc = tl.zeros([rows_padded, dims_padded], dtype=tl.float32)
        top = tl.full([rows_padded], NEVER, dtype=tl.float32)
        total = tl.zeros([rows_padded], dtype=tl.float32)
        if window == 0:
            acc, top, total = walk(
                q_tile, own_slot, acc, top, total, begin, masked_begin, pages, keys, key_scales, scale, head_dim, page_size,
                page_stride, scale_stride, kv_format, window, softcap, tile, dims_padded, dot_kind, False,
            )  # fmt: skip
        acc, top, total = walk(
            q_tile, own_slot, acc, top, total, masked_begin, end, pages, keys, key_scales, scale, head_dim, page_size,
            page_stride, scale_stride, kv_format, window, softcap, tile, dims_padded, dot_kind, True,
        )  # fmt: skip
        if kv_format == "fp8_head":
            acc *= tl.load(head_scales + kv_heads + kv_head)
        sink = None
        if sinks is not None:
            sink = tl.load(sinks + head, mask=is_row, other=0.0).to(tl.float32) * LOG2_E
        result = finished(acc, top, total, sink)
        out_at = out + (token[:, None] * heads + head[:, None]) * head_dim + dims[None, :]
        tl.store(out_at, result.to(out.dtype.element_ty), mask=real)
        if log_sums is not None:
            tl.store(log_sums + token * heads + head, log_sum(top, total, sink), mask=is_row)


def prefill_attention(
    q: Tensor,
    kv_layer: Tensor,
    batch: PagedBatch,
    layout: PageLayout,
    options: AttentionOptions,
    out: Tensor,
    longest: int,
    log_sums: Tensor | None = None,
) -> None:
    """q `[T, Hq, D]` (a view with adjacent heads) → out `[T, Hq, D]`, contiguous: the rows of the batch's tokens, no others.

    longest: at least the most new tokens that a sequence of the batch has; what is beyond it would be left out.
    log_sums: fp32 `[T, Hq]`, of the same rows the natural logarithm of the sum of exp(score), for whoever joins answers. No host
    synchronisation, no allocation.
    """
    check_attention(q, out, layout, options, log_sums)
    heads = q.shape[1]
    launch = launch_of(layout, heads // layout.kv_heads)
    blocks = triton.cdiv(longest, launch.rows // (heads // layout.kv_heads))
    if blocks and batch.size:
        _prefill_kernel[(blocks, layout.kv_heads, batch.size)](
            q, layout.values(kv_layer), layout.scales(kv_layer), options.head_scales, options.sinks,
            batch.cu_q, batch.kv_len, batch.page_table, batch.page_table.stride(0), out, log_sums, options.scale,
            **attention_constexprs(layout, options, heads, q.stride(0), kv_layer.stride(0)),
            rows_padded=launch.rows, tile=launch.tile,
            num_warps=launch.num_warps, num_stages=launch.num_stages, enable_fp_fusion=True,
        )  # fmt: skip


# Padded head dimension → tile. 128 rows by 64 slots in 8 warps is in the range of the Triton kernels that reach 47 % of an H100's
# peak (meta-pytorch/tritonbench#141); half of it where registers or shared memory do not hold it. Three stages, as one fetches
# page ids: with two, each tile waits for its page table (seen in the compiled code).
_LAUNCHES = {
    64: Launch(rows=128, tile=64, num_warps=4, num_stages=3),
    128: Launch(rows=128, tile=64, num_warps=8, num_stages=3),
    256: Launch(rows=64, tile=32, num_warps=8, num_stages=2),
}


def launch_of(layout: PageLayout, group: int) -> Launch:
    """group: Hq / Hkv, at most the rows of a tile.

    8-bit formats take half the slots: sm_80 decodes them in the registers of every warp, and 64 spilled 2.6 KB (compiled).
    """
    launch = _LAUNCHES.get(padded_dims(layout), Launch(rows=64, tile=32, num_warps=4, num_stages=2))
    if group > launch.rows:
        raise ValueError(f"prefill takes at most {launch.rows} query heads a KV head, not {group}")
    if layout.dtype == torch.float32:
        return dataclasses.replace(launch, rows=max(launch.rows // 2, int(triton.next_power_of_2(group))), tile=32)
    if layout.format != "dense":
        return dataclasses.replace(launch, tile=32)
    return launch


def aot_cases() -> list[AotCase]:
    """32 query and 8 KV heads of 128 (Llama-3 8B), dense and in the larger 8-bit format; gpt-oss's options (64 heads of 64)."""
    llama = PageLayout(8, 128, 16, torch.bfloat16)
    small = PageLayout(8, 64, 16, torch.bfloat16)
    plain, all_options = AttentionOptions(1.0), AttentionOptions(1.0, window=128, softcap=50.0)
    return [
        _case("dense", llama, 32, plain),
        _case("fp8_token", dataclasses.replace(llama, page_size=32, format="fp8_token"), 32, plain),
        _case("int8_token", dataclasses.replace(llama, page_size=32, format="int8_token"), 32, plain),
        _case("window_softcap_sinks", small, 64, all_options, sinks=True),
        _case("log_sums", llama, 32, plain, log_sums=True),
    ]


def _case(
    name: str,
    layout: PageLayout,
    heads: int,
    options: AttentionOptions,
    *,
    sinks: bool = False,
    log_sums: bool = False,
) -> AotCase:
    launch = launch_of(layout, heads // layout.kv_heads)
    own: dict[str, object] = {"rows_padded": launch.rows, "tile": launch.tile}
    kinds = {"sinks": sinks, "log_sums": log_sums}
    return aot_case(f"prefill_attention-{name}", _prefill_kernel, layout, heads, options, launch, own, **kinds)
