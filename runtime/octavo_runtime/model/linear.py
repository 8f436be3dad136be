"""A matrix product with its weight, in whatever scheme the weight is kept.

The call is `epilogue(x · Wᵀ + addend)`: what is added (a bias, an adapter's delta) comes before the epilogue, so that a fused
kernel and this plain one agree. The `dense` scheme keeps rows in the model's type and multiplies with torch.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from octavo_kernels import reference

Epilogue = Literal["none", "silu_mul"]


class Linear:
    """`[T, in] → [T, out]`, or `[T, out / 2]` with the `silu_mul` epilogue over `[gate | up]` rows."""

    def __init__(self, scheme: Literal["dense"] = "dense") -> None:
        self.scheme = scheme
        self._shards: list[Tensor] = []
        self._weight = torch.empty(0)

    def load(self, shard: Tensor) -> None:
        """Append rows `[rows, in]`; q, k, v or gate and up come one after another."""
        self._shards.append(shard)

    def finalize(self) -> None:
        """Join what was loaded into the form that calls use."""
        self._weight = self._shards[0] if len(self._shards) == 1 else torch.cat(self._shards)
        self._shards = []

    def __call__(self, x: Tensor, epilogue: Epilogue = "none", addend: Tensor | None = None) -> Tensor:
        out = functional.linear(x, self._weight)
        if addend is not None:
            out = out + addend
        return reference.silu_mul(out) if epilogue == "silu_mul" else out
