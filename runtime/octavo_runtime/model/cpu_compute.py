"""Products, embedding and norms by the CPU kernels: bf16 weights in panels, an fp32 residual stream."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from octavo_kernels.cpu.kernels import CpuKernels
from octavo_runtime.model.compute import Embedding, Layers, LayerWeights, Product
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.cpu_layers import CpuLayers
from octavo_runtime.model.cpu_product import CpuEmbedding, CpuProduct
from octavo_runtime.model.packed_weights import Packer
from octavo_runtime.model.rotary import Rotary
from octavo_runtime.model.sampler import FreeDraw, Ranked
from octavo_runtime.model.weights import WeightReader


class CpuDrawing:
    def __init__(self, kernels: CpuKernels) -> None:
        self._kernels = kernels

    def draw(self, logits: Tensor, draws: Sequence[FreeDraw]) -> list[int]:
        return self._kernels.draw(logits, [(one.row, one.seed, one.position, one.temperature) for one in draws])

    def rank(self, logits: Tensor, rows: Sequence[tuple[int, float]], count: int) -> list[Ranked]:
        ids, masses = self._kernels.rank(logits, rows, count)
        return [Ranked(row, mass) for row, mass in zip(ids.long().numpy(), masses.tolist(), strict=True)]


class CpuCompute:
    def __init__(self, kernels: CpuKernels, packer: Packer | None = None) -> None:
        self.name = f"cpu-{kernels.tier}"
        self._kernels = kernels
        self._packer = packer or Packer(kernels)
        self.drawing = CpuDrawing(kernels)

    def product(self, weights: WeightReader, parts: Mapping[str, tuple[int, int]]) -> Product:
        return CpuProduct(self._kernels, self._packer(weights, parts))

    def embedding(self, weights: WeightReader, name: str, shape: tuple[int, int]) -> Embedding:
        return CpuEmbedding(self._kernels, self._packer(weights, {name: shape}))

    def vector(self, weights: WeightReader, name: str, length: int) -> Tensor:
        return weights.take(name, (length,), torch.float32)

    def layers(self, config: ModelConfig, weights: Sequence[LayerWeights], rotary: Rotary) -> Layers:
        return CpuLayers(config, weights, rotary, self._kernels)

    def padded_rows(self, rows: int) -> int:
        return rows

    def add_rms_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        return self._kernels.add_rms_norm(residual, delta, weight, eps)
