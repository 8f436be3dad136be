"""The attention back end of the CPU kernels."""

import torch
from torch import Tensor

from octavo_kernels.cpu.kernels import CpuKernels
from octavo_kernels.cpu.pages import Pages
from octavo_runtime.model.attention import AttentionMeta, AttentionShape, HeadNorms, Importance, refuse_options
from octavo_runtime.model.rotary import Rotary


class CpuBackend:
    """Pages in the order that a product reads them (`kv_pages.h`), bf16 or of 8 bits, in one or several forms side by side."""

    name = "cpu"
    weighs = True

    def __init__(self, shape: AttentionShape, kernels: CpuKernels) -> None:
        self._kernels = kernels
        self._heads = shape.heads
        self.pages = Pages(shape.heads, shape.kv_heads, shape.head_dim, shape.kv_forms)
        self.layout_id = f"{self.name}-{shape.layout}-{kernels.tier}"
        self.page_bytes = self.pages.page_bytes

    def rotate_and_write(
        self, qkv: Tensor, rotary: Rotary, norms: HeadNorms | None, kv_layer: Tensor, meta: AttentionMeta
    ) -> Tensor:
        weights = None if norms is None else (norms.q, norms.k, norms.eps)
        self._kernels.rotate_and_write(
            self.pages, qkv, (rotary.cos, rotary.sin), meta.pos, weights, kv_layer, meta.slot_map, meta.forms
        )
        return qkv[:, : self._heads]

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
        weighed = weighed_by_kernels(importance_out)
        if weighed is not None:
            assert window is None  # nobody asks of a model that has one
            self._kernels.weigh(
                self.pages, q, kv_layer, meta.page_table, meta.cu_q, meta.kv_len, scale, weighed, meta.forms
            )
        out = torch.empty(q.shape)
        self._kernels.attend(
            self.pages, q, kv_layer, meta.page_table, meta.cu_q, meta.kv_len, scale, window, out, meta.forms
        )
        return out


def weighed_by_kernels(importance: Importance | None) -> tuple[Tensor, Tensor] | None:
    """As the kernels take it."""
    return None if importance is None else (torch.tensor(importance.sequences, dtype=torch.int32), importance.mass)
