"""What a decoder computes with beside attention: products, the embedding, norms. One for plain torch, others for compiled kernels.

The residual stream is a tensor that the compute makes (`Embedding.rows`) and adds to (`add_rms_norm`); its type is the compute's
own affair. Everything between two products of a layer is one call, so that a fused kernel and plain torch agree on the border.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from torch import Tensor

from octavo_kernels import reference
from octavo_runtime.model.linear import Epilogue, Linear, padded_rows
from octavo_runtime.model.sampler import Definition, Drawing
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


class Compute(Protocol):
    name: str

    def product(self, weights: WeightReader, parts: Mapping[str, tuple[int, int]]) -> Product:
        """The product with the tensors `parts` (name → rows, columns), one below the other. Raises ModelError."""
        ...

    def embedding(self, weights: WeightReader, name: str, shape: tuple[int, int]) -> Embedding: ...

    def vector(self, weights: WeightReader, name: str, length: int) -> Tensor:
        """The weights of a norm, or a bias, in the type that the compute takes them in."""
        ...

    @property
    def drawing(self) -> Drawing: ...

    def padded_rows(self, rows: int) -> int:
        """How many rows it pays to compute for `rows`, at least as many."""
        ...

    def add_rms_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        """Add `delta` to `residual` in place; → the sum's RMS norm times `weight`. Both `[T, hidden]`, weight `[hidden]`."""
        ...


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
    """Plain torch in the model's own type; `new_linear` makes its products."""

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

    @property
    def drawing(self) -> Drawing:
        return Definition()

    def padded_rows(self, rows: int) -> int:
        return padded_rows(rows)

    def add_rms_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        if delta is not None:
            residual += delta
        return reference.rms_norm(residual, weight, eps)
