"""Sequences whose pages have different forms in one step: each form's rows go to an attention back end of their own.

For back ends that know one form only, those in torch. The CPU kernels take all forms in one call.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from octavo_kernels.kv_form import Forms
from octavo_runtime.model.attention import AttentionBackend, AttentionMeta, HeadNorms, Importance
from octavo_runtime.model.rotary import Rotary


@dataclasses.dataclass(frozen=True, eq=False)
class _Part:
    """The rows and sequences of one form, and the batch that they are."""

    backend: AttentionBackend
    rows: Tensor  # int64
    sequences: list[int]
    meta: AttentionMeta


class MixedBackend:
    """`backends`: of the forms, in their order. All read the same pages, which are as long as the largest needs."""

    def __init__(self, backends: Sequence[AttentionBackend]) -> None:
        self._backends = backends
        self.name = backends[0].name
        self.layout_id = "+".join(backend.layout_id for backend in backends)
        self.page_bytes = max(backend.page_bytes for backend in backends)
        self.weighs = all(backend.weighs for backend in backends)
        self._split: tuple[AttentionMeta, list[_Part]] | None = None

    def rotate_and_write(
        self, qkv: Tensor, rotary: Rotary, norms: HeadNorms | None, kv_layer: Tensor, meta: AttentionMeta
    ) -> Tensor:
        if meta.forms is None:
            return self._backends[0].rotate_and_write(qkv, rotary, norms, kv_layer, meta)
        parts = self._parts(meta, meta.forms)
        turned = [one.backend.rotate_and_write(qkv[one.rows], rotary, norms, kv_layer, one.meta) for one in parts]
        q = torch.empty(len(qkv), *turned[0].shape[1:], dtype=qkv.dtype)
        for part, rows in zip(parts, turned, strict=True):
            q[part.rows] = rows
        return q

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
        options = scale, window, softcap, sinks
        if meta.forms is None:
            return self._backends[0].attend(q, kv_layer, meta, *options, importance_out)
        out = torch.empty_like(q)
        for part in self._parts(meta, meta.forms):
            own = _own(importance_out, part.sequences)
            out[part.rows] = part.backend.attend(q[part.rows], kv_layer, part.meta, *options, own)
            if importance_out is not None and own is not None:
                weighed = [at for at, index in enumerate(importance_out.sequences) if index in part.sequences]
                importance_out.mass[weighed] += own.mass
        return out

    def _parts(self, meta: AttentionMeta, forms: Forms) -> list[_Part]:
        """The same for every layer, so worked out once."""
        if self._split is None or self._split[0] is not meta:
            parts = [_part(backend, meta, forms, number) for number, backend in enumerate(self._backends)]
            self._split = meta, [part for part in parts if len(part.rows)]
        return self._split[1]


def _part(backend: AttentionBackend, meta: AttentionMeta, forms: Forms, number: int) -> _Part:
    rows = (forms.tokens == number).nonzero().flatten()
    sequences = [index for index, form in enumerate(forms.sequences.tolist()) if form == number]
    q_lens = tuple(meta.q_lens[index] for index in sequences)
    own = AttentionMeta(
        cu_q=torch.tensor([0, *itertools.accumulate(q_lens)], dtype=torch.int32),
        kv_len=meta.kv_len[sequences],
        pos=meta.pos[rows],
        page_table=meta.page_table[sequences],
        slot_map=meta.slot_map[rows],
        q_lens=q_lens,
        kv_lens=tuple(meta.kv_lens[index] for index in sequences),
    )
    return _Part(backend, rows, sequences, own)


def _own(importance: Importance | None, sequences: list[int]) -> Importance | None:
    """What a part's back end adds up, from nothing."""
    if importance is None:
        return None
    own = tuple(at for at, index in enumerate(sequences) if index in importance.sequences)
    return Importance(own, torch.zeros(len(own), importance.mass.shape[1])) if own else None
