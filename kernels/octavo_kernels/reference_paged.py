"""The plain torch definition of what kernels do with the pages of `page_layout.py`: the formats, attention over a ragged batch.

What runs without a GPU is `reference.py`; this is what kernels over 8-bit pages, with sinks, caps and windows are tested with.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from octavo_kernels.page_layout import TOKEN_SCALED, PageLayout
from octavo_kernels.paged_batch import AttentionOptions, PagedBatch

E4M3_MAX, INT8_MAX = 448.0, 127.0


def encode_e4m3(x: Tensor) -> Tensor:
    """To the nearest e4m3, ties to even, as its byte; beyond ±448 saturated, NaN as 0."""
    return x.float().nan_to_num(nan=0.0).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def decode_e4m3(code: Tensor) -> Tensor:
    """uint8 → fp32."""
    return code.view(torch.float8_e4m3fn).float()


def encode_int8(x: Tensor) -> Tensor:
    """To the nearest integer, ties to even, as its byte; beyond ±127 saturated, NaN as 0."""
    return x.float().nan_to_num(nan=0.0).clamp(-INT8_MAX, INT8_MAX).round().to(torch.int8).view(torch.uint8)


def decode_int8(code: Tensor) -> Tensor:
    """uint8 → fp32."""
    return code.view(torch.int8).float()


def token_scales(x: Tensor, greatest_code: float) -> Tensor:
    """x `[..., D]` → fp16 `[...]`: the largest magnitude becomes `greatest_code`; a normal number whatever x is."""
    largest = x.float().abs().nan_to_num(nan=0.0, posinf=torch.inf).amax(-1)
    return (largest * (1 / greatest_code)).clamp(2.0**-14, 65504.0).half()


def write_kv(
    k: Tensor, v: Tensor, kv_layer: Tensor, slot_map: Tensor, layout: PageLayout, head_scales: Tensor | None = None
) -> None:
    """k, v `[T, Hkv, D]` into the slots `slot_map`, in place. head_scales fp32 `[2, Hkv]` with `fp8_head`."""
    page, slot = slot_map // layout.page_size, slot_map % layout.page_size
    for half, x in enumerate((k, v)):
        if layout.format == "dense":
            _values(kv_layer, layout)[page, :, half, slot] = x
            continue
        integers = layout.format == "int8_token"
        scale = token_scales(x, INT8_MAX if integers else E4M3_MAX)
        if head_scales is not None:
            scale = head_scales[half].expand(len(x), -1)
        else:
            _scales(kv_layer, layout)[page, :, half, slot] = scale
        encode = encode_int8 if integers else encode_e4m3
        _values(kv_layer, layout)[page, :, half, slot] = encode(x.float() * (1.0 / scale.float()).unsqueeze(-1))


def read_kv(kv_layer: Tensor, pages: Tensor, layout: PageLayout, head_scales: Tensor | None = None) -> Tensor:
    """The slots of `pages` `[P]` in order, dequantised: fp32 `[K | V, P · page_size, Hkv, D]`."""
    return read_heads(kv_layer, pages, layout, head_scales).transpose(1, 2)


def read_heads(
    kv_layer: Tensor, pages: Tensor | slice, layout: PageLayout, head_scales: Tensor | None = None
) -> Tensor:
    """The same by heads: fp32 `[K | V, Hkv, P · page_size, D]`, contiguous. A slice of dense pages is read once and not copied."""
    stored = _values(kv_layer, layout)[pages].permute(2, 1, 0, 3, 4)
    out = torch.empty(stored.shape, device=stored.device)
    if layout.format == "dense":
        out.copy_(stored)
    else:
        out.copy_(decode_int8(stored) if layout.format == "int8_token" else decode_e4m3(stored))
    if layout.format in TOKEN_SCALED:
        out *= _scales(kv_layer, layout)[pages].permute(2, 1, 0, 3).unsqueeze(-1)
    elif head_scales is not None:
        out *= head_scales[:, :, None, None, None]
    return out.flatten(2, 3)


def attend(q: Tensor, kv_layer: Tensor, batch: PagedBatch, layout: PageLayout, options: AttentionOptions) -> Tensor:
    """q `[T, Hq, D]` → fp32 `[T, Hq, D]`; rows that belong to no sequence are zero."""
    out = torch.zeros(q.shape, device=q.device)
    for begin, end, k, v in _sequences(kv_layer, batch, layout, options):
        score = _scores(q[begin:end].float(), k, options)
        weight = torch.softmax(score, dim=-1)[..., : len(k)]
        out[begin:end] = torch.einsum("hrs,shd->rhd", weight, _of_heads(v, q.shape[1]))
    return out


def log_sums(q: Tensor, kv_layer: Tensor, batch: PagedBatch, layout: PageLayout, options: AttentionOptions) -> Tensor:
    """The logarithm of the sum of exp(score), a sink's included: fp32 `[T, Hq]`, −∞ where nothing is seen."""
    out = torch.full(q.shape[:2], -torch.inf, device=q.device)
    for begin, end, k, _ in _sequences(kv_layer, batch, layout, options):
        out[begin:end] = torch.logsumexp(_scores(q[begin:end].float(), k, options), dim=-1).t()
    return out


def _sequences(
    kv_layer: Tensor, batch: PagedBatch, layout: PageLayout, options: AttentionOptions
) -> Iterator[tuple[int, int, Tensor, Tensor]]:
    """Of those with tokens and a context: their rows of q from … to, k and v `[S, Hkv, D]`."""
    for index in range(batch.size):
        begin, end = int(batch.cu_q[index]), int(batch.cu_q[index + 1])
        slots = int(batch.kv_len[index])
        if begin == end or not slots:
            continue
        pages = batch.page_table[index, : -(-slots // layout.page_size)].long()
        k, v = read_kv(kv_layer, pages, layout, options.head_scales)[:, :slots]
        yield begin, end, k, v


def _of_heads(x: Tensor, heads: int) -> Tensor:
    """Keys or values `[S, Hkv, D]` for each query head."""
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _scores(q: Tensor, k: Tensor, options: AttentionOptions) -> Tensor:
    """q `[R, Hq, D]` are the last R tokens of k `[S, Hkv, D]` → `[Hq, R, S]`, behind them a sink's."""
    rows, heads, _ = q.shape
    slots = len(k)
    score = torch.einsum("rhd,shd->hrs", q, _of_heads(k, heads)) * options.scale
    if options.softcap is not None:
        score = options.softcap * torch.tanh(score / options.softcap)
    own = torch.arange(slots - rows, slots, device=q.device)[:, None]
    slot = torch.arange(slots, device=q.device)
    seen = slot <= own
    if options.window is not None:
        seen &= slot > own - options.window
    score = score.masked_fill(~seen, -torch.inf)
    if options.sinks is not None:
        score = torch.cat((score, options.sinks.float()[:, None, None].expand(-1, rows, 1)), dim=-1)
    return score


def _values(kv_layer: Tensor, layout: PageLayout) -> Tensor:
    """A view `[pages, Hkv, 2, page_size, D]`."""
    count = 2 * layout.kv_heads * layout.page_size * layout.head_dim
    shape = (layout.kv_heads, 2, layout.page_size, layout.head_dim)
    return layout.values(kv_layer)[:, :count].view(-1, *shape)


def _scales(kv_layer: Tensor, layout: PageLayout) -> Tensor:
    """A view `[pages, Hkv, 2, page_size]`, where pages have scales."""
    scales = layout.scales(kv_layer)
    assert scales is not None
    begin = layout.scales_begin_bytes // torch.float16.itemsize
    shape = (layout.kv_heads, 2, layout.page_size)
    return scales[:, begin : begin + 2 * layout.kv_heads * layout.page_size].view(-1, *shape)
