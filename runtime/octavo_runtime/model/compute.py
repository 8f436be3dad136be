"""What a decoder computes with beside attention: products, the embedding, norms. One for plain torch, others for compiled kernels.

The residual stream is a tensor that the compute makes (`Embedding.rows`) and adds to (`add_rms_norm`); its type is the compute's
own affair. Everything between two products of a layer is one call, so that a fused kernel and plain torch agree on the border.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

from octavo_runtime.model.attention import AttentionBackend, AttentionMeta, HeadNorms
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.linear import Epilogue
from octavo_runtime.model.rotary import Rotary
from octavo_runtime.model.sampler import Drawing
from octavo_runtime.model.weights import WeightReader


class Product(Protocol):
    """`epilogue(x · Wᵀ + addend)`: `[T, in] → [T, out]`, or `[T, out / 2]` with `silu_mul` over `[gate | up]` rows."""

    def __call__(self, x: Tensor, epilogue: Epilogue = "none", addend: Tensor | None = None) -> Tensor: ...

    def argmax(self, x: Tensor) -> Tensor:
        """The greatest column of each row of `x · Wᵀ`, of equal ones the lowest: int64 `[T]`."""
        ...


class Embedding(Protocol):
    def rows(self, ids: Tensor) -> Tensor:
        """ids int64 `[T]` → the residual stream's start `[T, hidden]`, which the caller may change."""
        ...

    def product(self) -> Product:
        """The head of a model that ties it to its embedding."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class LayerWeights:
    """What a layer of the Llama family multiplies with: attention (`qkv` rows q, k, v), then a SwiGLU MLP (rows gate, up)."""

    attention_norm: Tensor
    qkv: Product
    qkv_bias: Tensor | None
    head_norms: HeadNorms | None
    out: Product
    mlp_norm: Tensor
    gate_up: Product
    down: Product


class Layers(Protocol):
    def __call__(
        self, residual: Tensor, meta: AttentionMeta, backend: AttentionBackend, kv_layers: Sequence[Tensor]
    ) -> Tensor | None:
        """Change the residual stream `[T, hidden]` in place; → what is still to be added to it, if anything."""
        ...


class Compute(Protocol):
    name: str

    def product(self, weights: WeightReader, parts: Mapping[str, tuple[int, int]]) -> Product:
        """The product with the tensors `parts` (name → rows, columns), one below the other. Raises ModelError."""
        ...

    def embedding(self, weights: WeightReader, name: str, shape: tuple[int, int]) -> Embedding: ...

    def vector(self, weights: WeightReader, name: str, length: int) -> Tensor:
        """The weights of a norm, or a bias, in the type that the compute takes them in."""
        ...

    def layers(self, config: ModelConfig, weights: Sequence[LayerWeights], rotary: Rotary) -> Layers: ...

    @property
    def drawing(self) -> Drawing: ...

    def padded_rows(self, rows: int) -> int:
        """How many rows it pays to compute for `rows`, at least as many."""
        ...

    def add_rms_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        """Add `delta` to `residual` in place; → the sum's RMS norm times `weight`. Both `[T, hidden]`, weight `[hidden]`."""
        ...
