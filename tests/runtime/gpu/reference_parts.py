"""The reference back end with parts: of the device that this machine lacks."""

import itertools

import torch
from torch import Tensor

from octavo_kernels import reference
from octavo_runtime.model.attention import AttentionMeta, AttentionShape, ReferenceBackend
from octavo_runtime.model.attention_parts import Part
from octavo_runtime.model.reference_pages import ReferencePages


class ReferenceParts(ReferenceBackend):
    def __init__(self, shape: AttentionShape) -> None:
        super().__init__(shape)
        self._form = shape.kv_forms[0]
        self._bytes = ReferencePages(self._form, shape.kv_heads, shape.head_dim, shape.dtype)

    def attend_part(self, q: Tensor, kv_layer: Tensor, meta: AttentionMeta, scale: float, window: int | None) -> Part:
        log_sums = torch.full(q.shape[:2], -torch.inf)
        begins = itertools.accumulate(meta.q_lens, initial=0)
        for index, (begin, rows, slots) in enumerate(zip(begins, meta.q_lens, meta.kv_lens, strict=False)):
            pages = torch.tensor(meta.page_table[index, : -(-slots // self._form.page_size)].tolist())
            keys = self.read(kv_layer, pages)[0]
            seen = reference.visible_slots(torch.arange(slots - rows, slots), keys.shape[1], window)
            spread = keys.repeat_interleave(q.shape[1] // len(keys), dim=0)
            score = torch.einsum("rhd,hsd->rhs", q[begin : begin + rows].float(), spread) * scale
            log_sums[begin : begin + rows] = score.masked_fill(~seen.unsqueeze(1), -torch.inf).logsumexp(-1)
        return Part(self.attend(q, kv_layer, meta, scale, window, None, None).float(), log_sums)

    def merge(self, first: Part, second: Part, dtype: torch.dtype) -> Tensor:
        return reference.merge_parts(*first[:], *second[:]).to(dtype)

    def read(self, kv_layer: Tensor, pages: Tensor | slice) -> tuple[Tensor, Tensor]:
        ids = torch.arange(len(kv_layer))[pages] if isinstance(pages, slice) else pages
        keys, values = self._bytes.gather(kv_layer, ids.unsqueeze(0))
        return keys[0].float(), values[0].float()
