"""The attention back end of the CPU kernels: bf16 pages in the order that a product reads them."""

import torch
from torch import Tensor

from octavo_kernels.cpu.kernels import CpuKernels
from octavo_kernels.cpu.library import Shape
from octavo_runtime.model.attention import AttentionMeta, AttentionShape, HeadNorms, refuse_options
from octavo_runtime.model.rotary import Rotary


class CpuBackend:
    """A page holds for each KV head its keys `[page / 16][D / 2][16][2]`, then its values `[D / 16][page / 2][16][2]`."""

    name = "cpu"

    def __init__(self, shape: AttentionShape, kernels: CpuKernels) -> None:
        self._kernels = kernels
        self.shape = Shape(shape.heads, shape.kv_heads, shape.head_dim, shape.page_size)
        self.layout_id = f"{self.name}-{shape.page_size}x{shape.kv_heads}x{shape.head_dim}-{kernels.tier}"
        self.page_bytes = 2 * shape.page_size * shape.kv_heads * shape.head_dim * torch.bfloat16.itemsize

    def rotate_and_write(
        self, qkv: Tensor, rotary: Rotary, norms: HeadNorms | None, kv_layer: Tensor, meta: AttentionMeta
    ) -> Tensor:
        weights = None if norms is None else (norms.q, norms.k, norms.eps)
        self._kernels.rotate_and_write(
            self.shape, qkv, (rotary.cos, rotary.sin), meta.pos, weights, kv_layer, meta.slot_map
        )
        return qkv[:, : self.shape.heads]

    def attend(
        self,
        q: Tensor,
        kv_layer: Tensor,
        meta: AttentionMeta,
        scale: float,
        window: int | None,
        softcap: float | None,
        sinks: Tensor | None,
        importance_out: Tensor | None = None,
    ) -> Tensor:
        refuse_options(self.name, softcap, sinks, importance_out)
        out = torch.empty(q.shape)
        self._kernels.attend(self.shape, q, kv_layer, meta.page_table, meta.cu_q, meta.kv_len, scale, window, out)
        return out
