"""The plain torch definition of each op: what every kernel is tested against, and what runs where no kernel is.

Shapes: T tokens of the step, B sequences in it, Hq query heads, Hkv key/value heads, G = Hq / Hkv, D head dimension, S slots
gathered, P pages a sequence. A KV layer is `[pages, 2, page_size, Hkv, D]`: keys at index 0, values at 1.
"""

import torch
from torch import Tensor
from torch.nn import functional


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x²) + eps) · weight over the last dimension, computed in fp32 (https://arxiv.org/abs/1910.07467).

    x `[..., N]`, weight `[N]` → the type of x.
    """
    wide = x.float()
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return weight * normed.to(x.dtype)


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding, halves convention: (x₁, x₂) → (x₁·cos − x₂·sin, x₂·cos + x₁·sin) (https://arxiv.org/abs/2104.09864).

    x `[T, H, D]`, cos and sin `[T, D/2]` → the type of x.
    """
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos.unsqueeze(1).to(x.dtype), sin.unsqueeze(1).to(x.dtype)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def silu_mul(x: Tensor) -> Tensor:
    """SiLU(gate) · up of the concatenated `[..., gate | up]` (https://arxiv.org/abs/2002.05202): `[..., 2N]` → `[..., N]`."""
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up


def silu_mul_by_exp(x: Tensor) -> Tensor:
    """`silu_mul` as gate / (1 + exp(−gate)) · up, in fp32 until the product: an element's value does not depend on its place.

    Torch's `silu` takes the last elements of a row, and of a thread's share, through another exponential than the others, which
    differs in the last bit; its `exp` uses one for all.
    """
    gate, up = x.chunk(2, dim=-1)
    wide = gate.float()
    return (wide / (1 + torch.exp(-wide))).to(x.dtype) * up


def write_kv(k: Tensor, v: Tensor, kv_layer: Tensor, slot_map: Tensor) -> None:
    """Store the step's keys and values: token t goes to slot `slot_map[t]` = page · page_size + offset.

    k, v `[T, Hkv, D]`, slot_map int64 `[T]`; kv_layer is changed in place.
    """
    page_size = kv_layer.shape[2]
    page, offset = slot_map // page_size, slot_map % page_size
    kv_layer[page, 0, offset] = k.to(kv_layer.dtype)
    kv_layer[page, 1, offset] = v.to(kv_layer.dtype)


def copy_pages(kv_layer: Tensor, sources: Tensor, targets: Tensor) -> None:
    """Copy whole pages within a layer: `kv_layer[targets[i]] = kv_layer[sources[i]]`, all read before any is written."""
    kv_layer[targets] = kv_layer[sources]


def gather_kv(kv_layer: Tensor, page_table: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of `page_table` `[B, P]`, each `[B, Hkv, S = P · page_size, D]` (views of one gathered copy each)."""
    batch, pages = page_table.shape
    _, _, page_size, kv_heads, width = kv_layer.shape
    flat = page_table.reshape(-1)
    gathered = (kv_layer[:, half].index_select(0, flat) for half in (0, 1))
    k, v = (x.view(batch, pages * page_size, kv_heads, width).transpose(1, 2) for x in gathered)
    return k, v


def attend_rows(q: Tensor, k: Tensor, v: Tensor, visible: Tensor, scale: float) -> Tensor:
    """softmax(q·kᵀ·scale) · v over the visible slots, the G query heads of a KV head folded into query rows.

    q `[B, R, Hq, D]`, k and v `[B, Hkv, S, D]`, visible bool `[B, R, S]` → `[B, R, Hq, D]`. Folding keeps keys and values
    unexpanded: 2.7 times faster than repeating them at 8 sequences of 2,048 tokens on a CPU.
    """
    batch, rows, heads, width = q.shape
    kv_heads = k.shape[1]
    group = heads // kv_heads
    folded = (
        q.view(batch, rows, kv_heads, group, width).permute(0, 2, 3, 1, 4).reshape(batch, kv_heads, group * rows, width)
    )
    mask = visible.unsqueeze(1).repeat(1, 1, group, 1)
    out = functional.scaled_dot_product_attention(folded, k, v, attn_mask=mask, scale=scale)
    return out.view(batch, kv_heads, group, rows, width).permute(0, 3, 1, 2, 4).reshape(batch, rows, heads, width)


def merge_parts(first: Tensor, first_log_sums: Tensor, second: Tensor, second_log_sums: Tensor) -> Tensor:
    """Attention over both parts of a context from that over each and the logarithms of their sums of exp(score): fp32.

    Parts `[T, Hq, D]`, log_sums `[T, Hq]`; −∞: that part saw nothing and may hold anything. Both: zero.
    """
    logs = torch.stack((first_log_sums, second_log_sums)).float()
    top = logs.amax(0)
    weight = torch.exp(logs - top.masked_fill(top == -torch.inf, 0.0))
    total = weight.sum(0)
    share = (weight / total.masked_fill(total == 0.0, 1.0)).unsqueeze(-1)
    parts = torch.stack((first, second)).float().masked_fill(share == 0.0, 0.0)
    return (parts * share).sum(0)


def attention_to_pages(q: Tensor, k: Tensor, visible: Tensor, scale: float, page_size: int) -> Tensor:
    """How much attention each page gets: softmax(q·kᵀ·scale) over the visible slots, summed over a page's slots and the queries,
    as a mean over the query heads.

    q `[R, Hq, D]`, k `[Hkv, P · page_size, D]`, visible bool `[R, P · page_size]` → fp32 `[P]`.
    """
    rows, heads, _ = q.shape
    group = heads // k.shape[0]
    score = torch.einsum("rhd,hsd->hrs", q.float(), k.float().repeat_interleave(group, dim=0)) * scale
    weight = torch.softmax(score.masked_fill(~visible, -torch.inf), dim=-1)
    return weight.view(heads * rows, -1, page_size).sum((0, 2)) / heads


def visible_slots(q_slot: Tensor, slots: int, window: int | None) -> Tensor:
    """Which of `slots` each query sees: those up to its own slot and, with a window, of the last `window` ones.

    q_slot int `[..., R]` (the slot of the query's own token) → bool `[..., R, slots]`.
    """
    index = torch.arange(slots, device=q_slot.device)
    own = q_slot.unsqueeze(-1)
    visible = index <= own
    return visible if window is None else visible & (index > own - window)
