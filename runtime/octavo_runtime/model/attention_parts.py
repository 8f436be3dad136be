"""Attention over a part of a context, for answers over several parts that are merged, and such a part computed on the host."""

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from octavo_runtime.model.attention import AttentionBackend, AttentionMeta


class Part(NamedTuple):
    """What a part of the context gave. `log_sums`: logarithms of the sums of exp(score), −∞ where there was nothing to see;
    `out` may hold anything there."""

    out: Tensor  # fp32 [T, Hq, D]
    log_sums: Tensor  # fp32 [T, Hq]


class PartsBackend(AttentionBackend, Protocol):
    """One whose parts can be merged, and whose pages can be read on the host."""

    def attend_part(self, q: Tensor, kv_layer: Tensor, meta: AttentionMeta, scale: float, window: int | None) -> Part:
        """As `attend`, over a part of the sequences' contexts."""
        ...

    def merge(self, first: Part, second: Part, dtype: torch.dtype) -> Tensor:
        """Attention over both parts: `[T, Hq, D]`. May change the parts."""
        ...

    def read(self, kv_layer: Tensor, pages: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Keys and values of pages in the host's memory, each fp32 `[Hkv, S, D]`."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Keys and values `[Hkv, S, D]` of neighbouring slots of a context, from slot `begin` on."""

    begin: int
    keys: Tensor
    values: Tensor


def attend_blocks(
    q: Tensor, blocks: Iterable[Block], kv_heads: int, scale: float, window: int | None, own_slot: int
) -> Part:
    """q `[R, Hq, D]` over blocks that all lie before the queries' own slots, the first of which is `own_slot`.

    In fp32, by blocks with a running largest score (https://arxiv.org/abs/2205.14135): the scores of one block are there at once.
    """
    rows, heads, width = q.shape
    folded = (q.float() * scale).view(rows, kv_heads, -1, width).permute(1, 2, 0, 3).reshape(kv_heads, -1, width)
    out = torch.zeros_like(folded)
    top, total = torch.full(out.shape[:2], -torch.inf), torch.zeros(out.shape[:2])
    for block in blocks:
        score = torch.bmm(folded, block.keys.transpose(1, 2))
        if window is not None:
            slots = torch.arange(block.begin, block.begin + score.shape[2])
            oldest = torch.arange(rows) + (own_slot - window + 1)
            score.masked_fill_((slots < oldest[:, None]).repeat(heads // kv_heads, 1), -torch.inf)
        new_top = torch.maximum(top, score.amax(-1))
        base = new_top.masked_fill(new_top == -torch.inf, 0.0)
        weight = score.sub_(base.unsqueeze(-1)).exp_()
        shrink = torch.exp(top - base)
        total = total * shrink + weight.sum(-1)
        out = torch.baddbmm(out.mul_(shrink.unsqueeze(-1)), weight, block.values)
        top = new_top
    out /= total.masked_fill(total == 0.0, 1.0).unsqueeze(-1)
    by_rows = out.view(kv_heads, -1, rows, width).permute(2, 0, 1, 3).reshape(rows, heads, width)
    log_sums = (top + torch.log(total)).view(kv_heads, -1, rows).permute(2, 0, 1).reshape(rows, heads)
    return Part(by_rows, log_sums)
