"""What a decoder computes with in plain torch, in the model's own type."""

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from octavo_kernels import reference
from octavo_runtime.model.compute import Embedding, Layers, LayerWeights, Product
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.layers import LayerLoop
from octavo_runtime.model.linear import Linear, padded_rows
from octavo_runtime.model.rotary import Rotary
from octavo_runtime.model.sampler import Definition, Drawing
from octavo_runtime.model.weights import WeightReader


class TorchEmbedding:
    def __init__(self, table: Tensor, new_linear: Callable[[], Linear]) -> None:
        self._table = table
        self._new_linear = new_linear

    def rows(self, ids: Tensor) -> Tensor:
        return self._table[ids]

    def product(self) -> Product:
        linear = self._new_linear()
        linear.load(self._table)
        linear.finalize()
        return linear


class TorchCompute:
    """`new_linear` makes its products."""

    name = "torch"

    def __init__(self, new_linear: Callable[[], Linear] = Linear) -> None:
        self._new_linear = new_linear

    def product(self, weights: WeightReader, parts: Mapping[str, tuple[int, int]]) -> Product:
        linear = self._new_linear()
        for name, shape in parts.items():
            linear.load(weights.take(name, shape))
        linear.finalize()
        return linear

    def embedding(self, weights: WeightReader, name: str, shape: tuple[int, int]) -> Embedding:
        return TorchEmbedding(weights.take(name, shape), self._new_linear)

    def vector(self, weights: WeightReader, name: str, length: int) -> Tensor:
        return weights.take(name, (length,))

    def layers(self, config: ModelConfig, weights: Sequence[LayerWeights], rotary: Rotary) -> Layers:
        return LayerLoop(config, weights, rotary, self)

    @property
    def drawing(self) -> Drawing:
        return Definition()

    def padded_rows(self, rows: int) -> int:
        return padded_rows(rows)

    def add_rms_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        if delta is not None:
            residual += delta
        return reference.rms_norm(residual, weight, eps)
