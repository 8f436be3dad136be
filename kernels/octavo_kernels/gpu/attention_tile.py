"""What decode and prefill attention share: the walk over a context's slots, one tile of keys and values at a time.

For a row of queries the walk keeps the largest score so far (`top`), the sum of exp2(score − top) (`total`) and the sum of
values weighted by it (`out`), all fp32: softmax without its scores (https://arxiv.org/abs/2205.14135). Scores are in units of
log 2, as the hardware's exponential is exp2. Tiles begin at multiples of the tile, and what a row does not see adds exact
zeros: a row's bits depend on its own slots and on where the walk is cut, not on its neighbours.
"""

import triton
import triton.language as tl

from octavo_kernels.gpu.kv_format import decode_e4m3, decode_int8

LOG2_E = tl.constexpr(1.4426950408889634)
NEVER = tl.constexpr(float("-inf"))


@triton.jit
def capped(score: tl.tensor, softcap: tl.constexpr) -> tl.tensor:
    """softcap · tanh(score / softcap), by exp: the libraries of the targets share no tanh."""
    doubled = tl.exp(score * (2.0 / softcap))
    return softcap * (1.0 - 2.0 / (doubled + 1.0))


@triton.jit
def stored(raw: tl.tensor, dot_kind: tl.constexpr, kv_format: tl.constexpr) -> tl.tensor:
    """What a page holds, as the type of the product, without an 8-bit format's scale. bf16 and fp16 hold every 8-bit value."""
    if kv_format == "dense":
        return raw.to(dot_kind)
    if kv_format == "int8_token":
        return decode_int8(raw).to(dot_kind)
    return decode_e4m3(raw).to(dot_kind)


@triton.jit
def walk(
    q: tl.tensor,
    own_slot: tl.tensor,
    out: tl.tensor,
    top: tl.tensor,
    total: tl.tensor,
    begin: tl.tensor,
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
    window: tl.constexpr,
    softcap: tl.constexpr,
    tile: tl.constexpr,
    dims_padded: tl.constexpr,
    dot_kind: tl.constexpr,
    masked: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Take the slots begin … end − 1 into (out `[M, D]`, top `[M]`, total `[M]`); begin is a multiple of the tile.

    q `[M, D]`; row m sees the slots up to own_slot[m] and, with a window, of the last `window` ones. pages: the sequence's row
    of the page table. keys: the KV head's keys in page 0 (its values follow page_size rows later); key_scales: the same of
    fp16 scales. With `masked` false, every row sees every slot, and end is a multiple of the tile.
    """
    dims = tl.arange(0, dims_padded)
    is_dim = dims < head_dim
    for tile_begin in range(begin, end, tile):
        slots = tile_begin + tl.arange(0, tile)
        is_slot = slots < end
        if masked:
            page = tl.load(pages + slots // page_size, mask=is_slot, other=0).to(tl.int64)
            real = is_slot[:, None] & is_dim[None, :]
        else:
            page = tl.load(pages + slots // page_size).to(tl.int64)
            real = is_dim[None, :]
        row = keys + page * page_stride + (slots % page_size) * head_dim
        at = row[:, None] + dims[None, :]
        key = stored(tl.load(at, mask=real, other=0), dot_kind, kv_format)
        score = tl.dot(q, tl.trans(key), input_precision="ieee") * scale
        if (kv_format == "fp8_token") or (kv_format == "int8_token"):
            scale_at = key_scales + page * scale_stride + slots % page_size
            score *= tl.load(scale_at, mask=is_slot, other=0.0).to(tl.float32)[None, :]
        if softcap != 0.0:
            score = capped(score, softcap)
        score *= LOG2_E
        if masked:
            seen = slots[None, :] <= own_slot[:, None]
            if window != 0:
                seen &= slots[None, :] > own_slot[:, None] - window
            score = tl.where(seen, score, NEVER)
        new_top = tl.maximum(top, tl.max(score, axis=1))
        # A row that has seen nothing yet: any finite base, so that no difference of infinities is formed.
        base = tl.where(new_top == NEVER, 0.0, new_top)
        weight = tl.math.exp2(score - base[:, None])
        shrink = tl.math.exp2(top - base)
        total = total * shrink + tl.sum(weight, axis=1)
        value = stored(tl.load(at + page_size * head_dim, mask=real, other=0), dot_kind, kv_format)
        if (kv_format == "fp8_token") or (kv_format == "int8_token"):
            value_scale = tl.load(scale_at + page_size, mask=is_slot, other=0.0).to(tl.float32)
            value = (value.to(tl.float32) * value_scale[:, None]).to(dot_kind)
        out = tl.dot(weight.to(dot_kind), value, out * shrink[:, None], input_precision="ieee")
        top = new_top
    return out, top, total


@triton.jit
def finished(out: tl.tensor, top: tl.tensor, total: tl.tensor, sink: tl.tensor) -> tl.tensor:
    """The softmax's quotient. sink `[M]`: a score that takes its share of the sum and has no value. Nothing seen: zero."""
    base = tl.where(top == NEVER, 0.0, top)
    if sink is not None:
        largest = tl.maximum(base, sink)
        shrink = tl.math.exp2(base - largest)
        out *= shrink[:, None]
        total = total * shrink + tl.math.exp2(sink - largest)
    return out / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit
def log_sum(top: tl.tensor, total: tl.tensor, sink: tl.tensor) -> tl.tensor:
    """`[M]`: the natural logarithm of the sum of exp(score), with the sink's, for whoever joins answers. Nothing seen: −inf."""
    base = tl.where(top == NEVER, 0.0, top)
    if sink is not None:
        largest = tl.maximum(base, sink)
        total = total * tl.math.exp2(base - largest) + tl.math.exp2(sink - largest)
        base = largest
    nothing = total == 0.0
    return tl.where(nothing, NEVER, base + tl.math.log2(tl.where(nothing, 1.0, total))) / LOG2_E
