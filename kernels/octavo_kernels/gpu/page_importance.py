"""How much attention the pages of some sequences get, by the queries of a step: what selective caching goes by.

mass[i, p] += mean over query heads of Σ over queries and the slots of page p of softmax(q·kᵀ·scale), causal over slots, as
attention has it; `reference.attention_to_pages` is the definition. Sequences that do not ask take no part, and attention itself,
in its own kernels, keeps its bits whether anybody asks or not.

One program takes one KV head and a block of tokens, as prefill attention does. It walks the keys twice: for each row's greatest
score and sum, then for its weights, which it sums over rows and slots. What programs of one sequence have found is added up
outside, in a fixed order: which page goes must not depend on which program was first. Reading keys twice is as much as attention
reads; what is read is bounded by the budget of a sequence that asks.
"""

import dataclasses

import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase
from octavo_kernels.gpu.attention_launch import UNALIGNED, Launch, attention_constexprs, padded_dims
from octavo_kernels.gpu.attention_tile import LOG2_E, NEVER, stored
from octavo_kernels.page_layout import PageLayout
from octavo_kernels.paged_batch import AttentionOptions, PagedBatch

_CONSTEXPRS = (
    *("token_stride", "heads", "kv_heads", "head_dim", "page_size", "page_stride", "scale_stride", "scale_begin"),
    *("kv_format", "dims_padded", "dot_kind"),
)


@triton.jit
def _scores(
    q: tl.tensor,
    own_slot: tl.tensor,
    slots: tl.tensor,
    end: tl.tensor,
    pages: tl.tensor,
    keys: tl.tensor,
    key_scales: tl.tensor,
    scale: tl.tensor,
    head_dim: tl.constexpr,
    page_size: tl.constexpr,
    page_stride: tl.constexpr,
    scale_stride: tl.constexpr,
    kv_format: tl.constexpr,
    dims_padded: tl.constexpr,
    dot_kind: tl.constexpr,
) -> tl.tensor:
    """fp32 `[M, tile]` in units of log 2, −∞ where a row does not see the slot; arguments as `attention_tile.walk` has them."""
    dims = tl.arange(0, dims_padded)
    is_slot = slots < end
    page = tl.load(pages + slots // page_size, mask=is_slot, other=0).to(tl.int64)
    at = (keys + page * page_stride + (slots % page_size) * head_dim)[:, None] + dims[None, :]
    raw = tl.load(at, mask=is_slot[:, None] & (dims < head_dim)[None, :], other=0)
    score = tl.dot(q, tl.trans(stored(raw, dot_kind, kv_format)), input_precision="ieee") * scale
    if key_scales is not None:
        of_slot = tl.load(key_scales + page * scale_stride + slots % page_size, mask=is_slot, other=0.0)
        score *= of_slot.to(tl.float32)[None, :]
    return tl.where(slots[None, :] <= own_slot[:, None], score * LOG2_E, NEVER)


@triton.jit(do_not_specialize=["table_stride", "places"], do_not_specialize_on_alignment=[*UNALIGNED, "chosen"])
def _importance_kernel(
    q: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    head_scales: tl.tensor,
    chosen: tl.tensor,
    cu_q: tl.tensor,
    kv_len: tl.tensor,
    page_table: tl.tensor,
    table_stride: tl.tensor,
    parts: tl.tensor,
    places: tl.tensor,
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
    rows_padded: tl.constexpr,
    dims_padded: tl.constexpr,
    tile: tl.constexpr,
    dot_kind: tl.constexpr,
) -> None:
    """Grid (blocks of the longest sequence, Hkv, sequences that ask). parts fp32 `[sequences, Hkv, blocks, places]`, zero."""
    kv_head = tl.program_id(1)
    sequence = tl.load(chosen + tl.program_id(2))
    group: tl.constexpr = heads // kv_heads
    block_tokens: tl.constexpr = rows_padded // group
    first_token = tl.load(cu_q + sequence)
    q_len = tl.load(cu_q + sequence + 1) - first_token
    context = tl.load(kv_len + sequence)
    first_query = tl.program_id(0) * block_tokens
    if first_query < q_len:
        rows = tl.arange(0, rows_padded)
        dims = tl.arange(0, dims_padded)
        query = first_query + rows // group
        token = (first_token + query).to(tl.int64)
        is_row = (rows < block_tokens * group) & (query < q_len)
        q_at = q + token[:, None] * token_stride + (kv_head * group + rows % group)[:, None] * head_dim + dims[None, :]
        q_tile = tl.load(q_at, mask=is_row[:, None] & (dims < head_dim)[None, :], other=0.0).to(dot_kind)
        own_slot = tl.where(is_row, context - q_len + query, -1)
        end = tl.minimum(context - q_len + first_query + block_tokens, context)
        head_rows = kv_head * 2 * page_size
        pages = page_table + sequence.to(tl.int64) * table_stride
        keys = values + head_rows * head_dim
        key_scales = None
        if scales is not None:
            key_scales = scales + scale_begin + head_rows
        if head_scales is not None:
            scale *= tl.load(head_scales + kv_head)
        top = tl.full([rows_padded], NEVER, dtype=tl.float32)
        total = tl.zeros([rows_padded], dtype=tl.float32)
        for tile_begin in range(0, end, tile):
            score = _scores(
                q_tile, own_slot, tile_begin + tl.arange(0, tile), end, pages, keys, key_scales, scale, head_dim, page_size,
                page_stride, scale_stride, kv_format, dims_padded, dot_kind,
            )  # fmt: skip
            new_top = tl.maximum(top, tl.max(score, axis=1))
            base = tl.where(new_top == NEVER, 0.0, new_top)
            total = total * tl.math.exp2(top - base) + tl.sum(tl.math.exp2(score - base[:, None]), axis=1)
            top = new_top
        base = tl.where(top == NEVER, 0.0, top)
        share = tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))
        block = (tl.program_id(2) * kv_heads + kv_head) * tl.num_programs(0) + tl.program_id(0)
        to = parts + block.to(tl.int64) * places
        for tile_begin in range(0, end, tile):
            score = _scores(
                q_tile, own_slot, tile_begin + tl.arange(0, tile), end, pages, keys, key_scales, scale, head_dim, page_size,
                page_stride, scale_stride, kv_format, dims_padded, dot_kind,
            )  # fmt: skip
            of_slot = tl.sum(tl.math.exp2(score - base[:, None]) * share[:, None], axis=0)
            of_page = tl.sum(tl.reshape(of_slot, [tile // page_size, page_size]), axis=1)
            place = tile_begin // page_size + tl.arange(0, tile // page_size)
            tl.store(to + place, of_page, mask=place * page_size < end)


def page_importance(
    q: Tensor,
    kv_layer: Tensor,
    batch: PagedBatch,
    layout: PageLayout,
    options: AttentionOptions,
    chosen: Tensor,
    mass: Tensor,
    longest: int,
) -> None:
    """Add to mass fp32 `[K, P]` what the pages of the sequences `chosen` int32 `[K]` of the batch get.

    q `[T, Hq, D]` as attention takes it. longest: at least the most new tokens that one of them has. Full attention only: without
    window, cap or sinks. No host synchronisation.
    """
    if options.window is not None or options.softcap is not None or options.sinks is not None:
        raise ValueError("the importance of pages is of full attention: without window, softcap and sinks")
    heads, places = q.shape[1], mass.shape[1]
    launch = launch_of(layout, heads // layout.kv_heads, longest)
    blocks = triton.cdiv(longest, launch.rows // (heads // layout.kv_heads))
    parts = torch.zeros(len(chosen), layout.kv_heads, blocks, places, device=mass.device)
    fixed = attention_constexprs(layout, options, heads, q.stride(0), kv_layer.stride(0))
    _importance_kernel[(blocks, layout.kv_heads, len(chosen))](
        q, layout.values(kv_layer), layout.scales(kv_layer), options.head_scales, chosen,
        batch.cu_q, batch.kv_len, batch.page_table, batch.page_table.stride(0), parts, places, options.scale,
        **{name: fixed[name] for name in _CONSTEXPRS}, rows_padded=launch.rows, tile=launch.tile,
        num_warps=launch.num_warps, num_stages=launch.num_stages, enable_fp_fusion=True,
    )  # fmt: skip
    mass.add_(parts.sum((1, 2)), alpha=1 / heads)


def launch_of(layout: PageLayout, group: int, longest: int) -> Launch:
    """group: Hq / Hkv. A tile has whole pages. Nothing of it was measured on a GPU yet: half of prefill's rows, as sums over rows
    and slots need no more."""
    wanted = group if longest == 1 else max(64, group)
    rows = max(16, int(triton.next_power_of_2(wanted)))
    tile = max(32, layout.page_size)
    return Launch(rows, tile, num_warps=8 if tile * padded_dims(layout) > 8192 else 4, num_stages=2)


def aot_cases() -> list[AotCase]:
    """32 query and 8 KV heads of 128 (Llama-3 8B): a decode and a chunk, dense and with a scale for each token."""
    llama = PageLayout(8, 128, 16, torch.bfloat16)
    eight_bits = dataclasses.replace(llama, page_size=32, format="fp8_token")
    return [_case("decode", llama, 1), _case("chunk", llama, 256), _case("chunk-fp8_token", eight_bits, 256)]


def _case(name: str, layout: PageLayout, longest: int) -> AotCase:
    heads = 32
    launch = launch_of(layout, heads // layout.kv_heads, longest)
    pointers = {"q": "*bf16", "values": "*bf16" if layout.format == "dense" else "*u8"}
    if layout.format != "dense":
        pointers["scales"] = "*fp16"
    pointers |= {"chosen": "*i32", "cu_q": "*i32", "kv_len": "*i32", "page_table": "*i64", "table_stride": "i32"}
    pointers |= {"parts": "*fp32", "places": "i32", "scale": "fp32"}
    absent = {key: None for key in ("scales", "head_scales") if key not in pointers}
    token_stride = (heads + 2 * layout.kv_heads) * layout.head_dim
    fixed = attention_constexprs(layout, AttentionOptions(1.0), heads, token_stride, layout.page_bytes)
    own = {name: fixed[name] for name in _CONSTEXPRS} | {"rows_padded": launch.rows, "tile": launch.tile}
    constexprs = {**absent, **own}
    return AotCase(
        f"page_importance-{name}", _importance_kernel, pointers, constexprs, launch.num_warps, launch.num_stages
    )
