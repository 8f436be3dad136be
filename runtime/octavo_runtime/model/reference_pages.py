"""Pages for the attention back ends in torch: keys, values, then the scales of what has 8 bits.

Keys and values are each `[page_size, Hkv, D]`, scales fp16 `[page_size, Hkv]`.
"""

import torch
from torch import Tensor

from octavo_kernels import kv_form, reference
from octavo_kernels.kv_form import KvForm, KvKind

_ALIGNMENT_BYTES = 16


class ReferencePages:
    """A KV layer's rows may be longer than `page_bytes`: another form's."""

    def __init__(self, form: KvForm, kv_heads: int, head_dim: int, dtype: torch.dtype) -> None:
        self._form = form
        self._slots = form.page_size, kv_heads
        self._dim = head_dim
        self._dtype = dtype
        needed = form.page_bytes(kv_heads, head_dim, dtype)
        self.page_bytes = -(-needed // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES

    def write(self, k: Tensor, v: Tensor, kv_layer: Tensor, slot_map: Tensor) -> None:
        """Store k, v `[T, Hkv, D]` into the slots `slot_map` int64 `[T]`."""
        if self._form.is_dense:
            return reference.write_kv(k, v, self._dense(kv_layer), slot_map)
        page, offset = slot_map // self._form.page_size, slot_map % self._form.page_size
        for x, (kind, stored, scales) in zip((k, v), self._halves(kv_layer), strict=True):
            if scales is None:
                stored[page, offset] = x.to(stored.dtype)
            else:
                stored[page, offset], scales[page, offset] = kv_form.encode(x, kind)
        return None

    def gather(self, kv_layer: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the pages `table` `[B, P]`, each `[B, Hkv, S = P · page_size, D]` of the model's type."""
        if self._form.is_dense:
            return reference.gather_kv(self._dense(kv_layer), table)
        flat, batch = table.reshape(-1), table.shape[0]
        gathered = []
        for kind, stored, scales in self._halves(kv_layer):
            x = stored[flat]
            if scales is not None:
                x = kv_form.decode(x, scales[flat], kind).to(self._dtype)
            gathered.append(x.view(batch, -1, self._slots[1], self._dim).transpose(1, 2))
        k, v = gathered
        return k, v

    def _dense(self, kv_layer: Tensor) -> Tensor:
        """A view `[pages, 2, page_size, Hkv, D]`."""
        used = kv_layer[:, : 2 * self._bytes("dense")]
        return used.view(self._dtype).view(-1, 2, *self._slots, self._dim)

    def _halves(self, kv_layer: Tensor) -> list[tuple[KvKind, Tensor, Tensor | None]]:
        """Views of the keys and of the values: their kind, `[pages, page_size, Hkv, D]`, and `[pages, page_size, Hkv]`."""
        kinds = self._form.keys, self._form.values
        begins = [0, self._bytes(kinds[0])]
        scales_begin = begins[1] + self._bytes(kinds[1])
        scale_bytes = self._slots[0] * self._slots[1] * torch.float16.itemsize
        halves: list[tuple[KvKind, Tensor, Tensor | None]] = []
        for kind, begin in zip(kinds, begins, strict=True):
            part = kv_layer[:, begin : begin + self._bytes(kind)]
            stored = part.view(self._dtype) if kind == "dense" else part
            scales = None
            if kind != "dense":
                scales = (
                    kv_layer[:, scales_begin : scales_begin + scale_bytes].view(torch.float16).view(-1, *self._slots)
                )
                scales_begin += scale_bytes
            halves.append((kind, stored.view(-1, *self._slots, self._dim), scales))
        return halves

    def _bytes(self, kind: KvKind) -> int:
        """Of keys, or values, without their scales."""
        itemsize = self._dtype.itemsize if kind == "dense" else 1
        return self._slots[0] * self._slots[1] * self._dim * itemsize
