"""The border between the model and attention back ends, and the back end in plain torch.

A back end owns the meaning of a page's bytes (`layout_id`), writes keys and values into pages and attends over them. An option
that it lacks is an error at load that names the option.
"""

import dataclasses
import itertools
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from octavo_kernels import reference
from octavo_kernels.kv_form import Forms, KvForm
from octavo_runtime.model.config import ModelError
from octavo_runtime.model.reference_pages import ReferencePages
from octavo_runtime.model.rotary import Rotary


@dataclasses.dataclass(frozen=True, eq=False)
class Importance:
    """Which sequences of a batch want to know how much attention their pages get, and where it is added up over the layers.

    To mass[i, p], for place p in the page table of sequence `sequences[i]`, a layer adds the weights that the step's queries of
    that sequence give to slots of the page, as a mean over the query heads: to a row, as much as there are queries.
    """

    sequences: tuple[int, ...]  # ascending
    mass: Tensor  # fp32 [len(sequences), P]


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionMeta:
    """The batch of a step, as attention sees it: B sequences, T tokens, sequences of one token first.

    `kv_len` counts cache slots, this step's included; `pos` are rotary positions, which are not derived from it (evicted pages
    leave no hole in the cache but do in positions). `slot_map[t]` = page · page_size + offset of token t.
    Tokens beyond the sequences' only fill up the batch: their slots are the sink's, what they give is zero.
    """

    cu_q: Tensor  # int32 [B + 1]
    kv_len: Tensor  # int32 [B]
    pos: Tensor  # int64 [T]
    page_table: Tensor  # int64 [B, P], padded with page 0
    slot_map: Tensor  # int64 [T]
    q_lens: tuple[int, ...]  # on the host, as cu_q
    kv_lens: tuple[int, ...]  # on the host, as kv_len
    forms: Forms | None = None  # of the sequences' pages; None: all have the first that the back end was built for
    importance: Importance | None = None  # what layers pass to `attend`

    @property
    def decodes(self) -> int:
        """How many leading sequences have one token."""
        return next((i for i, count in enumerate(self.q_lens) if count != 1), len(self.q_lens))


@dataclasses.dataclass(frozen=True, eq=False)
class HeadNorms:
    """RMS norms of each query and key head before rotation (Qwen3): weights `[D]`."""

    q: Tensor
    k: Tensor
    eps: float


@dataclasses.dataclass(frozen=True)
class AttentionShape:
    """What a back end is built for."""

    heads: int
    kv_heads: int
    head_dim: int
    page_size: int
    dtype: torch.dtype
    forms: tuple[KvForm, ...] = ()  # what a sequence's keys and values can be kept as; none named: dense

    @property
    def kv_forms(self) -> tuple[KvForm, ...]:
        return self.forms or (KvForm(self.page_size),)

    @property
    def layout(self) -> str:
        """What of pages' layout does not depend on the back end, for its `layout_id`."""
        return f"{'+'.join(form.name for form in self.kv_forms)}-{self.kv_heads}x{self.head_dim}"


class AttentionBackend(Protocol):
    name: str
    layout_id: str
    page_bytes: int
    weighs: bool  # whether it has `importance_out`

    def rotate_and_write(
        self, qkv: Tensor, rotary: Rotary, norms: HeadNorms | None, kv_layer: Tensor, meta: AttentionMeta
    ) -> Tensor:
        """qkv `[T, Hq + 2 Hkv, D]` → q `[T, Hq, D]`, normed and rotated to `meta.pos`; k, so treated, and v go into the layer's
        pages at `meta.slot_map`. May change qkv."""
        ...

    def attend(
        self,
        q: Tensor,
        kv_layer: Tensor,
        meta: AttentionMeta,
        scale: float,
        window: int | None,
        softcap: float | None,
        sinks: Tensor | None,
        importance_out: Importance | None = None,
    ) -> Tensor:
        """q `[T, Hq, D]` over the pages of `meta.page_table` → `[T, Hq, D]`, whose bits do not depend on `importance_out`."""
        ...


def refuse_options(name: str, softcap: float | None, sinks: Tensor | None) -> None:
    """Raise ModelError if any is asked for: of a back end that has none of them."""
    if softcap is not None or sinks is not None:
        raise ModelError(f"the {name} attention back end has no softcap or sinks")


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Sequences that attend in one call: rows of q, their pages and what each row sees."""

    begin: int
    end: int
    batch: int
    pages: Tensor  # [batch, P]
    visible: Tensor  # bool [batch, padded rows, S]


class ReferenceBackend:
    """Attention by gathering pages: one call for all sequences that decode, one for each that prefills.

    `reference_pages.py` has the pages' layout; of several forms it takes the first.
    """

    name = "reference"
    weighs = True

    def __init__(self, shape: AttentionShape) -> None:
        self._shape = shape
        self.layout_id = f"{self.name}-{shape.layout}-{shape.dtype}"
        self._pages = ReferencePages(shape.kv_forms[0], shape.kv_heads, shape.head_dim, shape.dtype)
        self.page_bytes = self._pages.page_bytes
        self._prepared: tuple[AttentionMeta, int | None, list[_Rows]] | None = None
        self._rotation: tuple[AttentionMeta, Rotary, Tensor, Tensor] | None = None

    def rotate_and_write(
        self, qkv: Tensor, rotary: Rotary, norms: HeadNorms | None, kv_layer: Tensor, meta: AttentionMeta
    ) -> Tensor:
        shape = self._shape
        q, k, v = torch.split(qkv, [shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
        if norms is not None:
            q, k = reference.rms_norm(q, norms.q, norms.eps), reference.rms_norm(k, norms.k, norms.eps)
        cos, sin = self._angles(rotary, meta)
        self.write(reference.rope(k, cos, sin), v, kv_layer, meta)
        return reference.rope(q, cos, sin)

    def write(self, k: Tensor, v: Tensor, kv_layer: Tensor, meta: AttentionMeta) -> None:
        """Store k, v `[T, Hkv, D]` into the layer's pages at `meta.slot_map`."""
        self._pages.write(k, v, kv_layer, meta.slot_map)

    def attend(
        self,
        q: Tensor,
        kv_layer: Tensor,
        meta: AttentionMeta,
        scale: float,
        window: int | None,
        softcap: float | None,
        sinks: Tensor | None,
        importance_out: Importance | None = None,
    ) -> Tensor:
        refuse_options(self.name, softcap, sinks)
        if importance_out is not None:
            self._weigh(q, kv_layer, meta, scale, window, importance_out)
        out = torch.empty_like(q)
        # What fills up the batch must stay finite: it is written to the sink, and a mask does not hide a NaN from a product.
        out[sum(meta.q_lens) :] = 0.0
        for rows in self._rows(meta, window):
            k, v = self._pages.gather(kv_layer, rows.pages)
            part = q[rows.begin : rows.end].view(rows.batch, -1, *q.shape[1:])
            out[rows.begin : rows.end] = self._attend(part, k, v, rows.visible, scale).flatten(0, 1)
        return out

    def _weigh(
        self,
        q: Tensor,
        kv_layer: Tensor,
        meta: AttentionMeta,
        scale: float,
        window: int | None,
        importance: Importance,
    ) -> None:
        """One sequence after the other: few have a budget, and what they hold is short."""
        begins = [0, *itertools.accumulate(meta.q_lens)]
        for mass, index in zip(importance.mass, importance.sequences, strict=True):
            kv_len, q_len = meta.kv_lens[index], meta.q_lens[index]
            count = -(-kv_len // self._shape.page_size)
            k, _ = self._pages.gather(kv_layer, meta.page_table[index : index + 1, :count])
            own = torch.arange(kv_len - q_len, kv_len, device=k.device)
            visible = reference.visible_slots(own, k.shape[2], window)
            rows = q[begins[index] : begins[index + 1]]
            mass[:count] += reference.attention_to_pages(rows, k[0], visible, scale, self._shape.page_size)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor, scale: float) -> Tensor:
        """q `[batch, rows, Hq, D]`, k and v `[batch, Hkv, S, D]`, visible `[batch, _padded_rows(rows), S]` → as q."""
        return reference.attend_rows(q, k, v, visible, scale)

    def _padded_rows(self, q_len: int) -> int:
        return q_len

    def _padded_slots(self, kv_len: int) -> int:
        """How many slots are gathered for `kv_len` ones: whole pages."""
        return -(-kv_len // self._shape.page_size) * self._shape.page_size

    def _angles(self, rotary: Rotary, meta: AttentionMeta) -> tuple[Tensor, Tensor]:
        """cos and sin at the step's positions: the same for every layer, so gathered once."""
        if self._rotation is None or self._rotation[0] is not meta or self._rotation[1] is not rotary:
            dtype = self._shape.dtype
            self._rotation = (meta, rotary, rotary.cos[meta.pos].to(dtype), rotary.sin[meta.pos].to(dtype))
        return self._rotation[2:]

    def _rows(self, meta: AttentionMeta, window: int | None) -> list[_Rows]:
        """The calls of a step: the same for every layer, so worked out once."""
        if self._prepared is None or self._prepared[0] is not meta or self._prepared[1] != window:
            self._prepared = (meta, window, list(self._plan(meta, window)))
        return self._prepared[2]

    def _plan(self, meta: AttentionMeta, window: int | None) -> list[_Rows]:
        decodes = meta.decodes
        plan = [self._group(meta, window, 0, decodes, 0, 1)] if decodes else []
        begin = decodes
        for index in range(decodes, len(meta.q_lens)):
            plan.append(self._group(meta, window, index, index + 1, begin, meta.q_lens[index]))
            begin += meta.q_lens[index]
        return plan

    def _group(self, meta: AttentionMeta, window: int | None, first: int, last: int, begin: int, q_len: int) -> _Rows:
        slots = self._padded_slots(max(meta.kv_lens[first:last]))
        pages = slots // self._shape.page_size
        table = meta.page_table[first:last, :pages]
        own = torch.arange(self._padded_rows(q_len), device=meta.kv_len.device) - q_len
        q_slot = meta.kv_len[first:last].unsqueeze(1) + own
        return _Rows(
            begin=begin,
            end=begin + (last - first) * q_len,
            batch=last - first,
            pages=functional.pad(table, (0, pages - table.shape[1])),
            visible=reference.visible_slots(q_slot, slots, window),
        )
