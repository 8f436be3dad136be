"""A matrix product with its weight, in whatever scheme the weight is kept.

The call is `epilogue(x · Wᵀ + addend)`: what is added (a bias, an adapter's delta) comes before the epilogue, so that a fused
kernel and this plain one agree. The `dense` scheme keeps rows in the model's type and multiplies with torch: on a CPU over weights
that oneDNN has laid out for itself once, which is two to three times as fast as `functional.linear` for the 16 rows of a small
decoding batch (576 x 3072, fp32, 2 cores with AVX2, in one run: 3.9 against 13.2 ms; 1.8 against 4.9 ms for 1536 x 576).
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from octavo_kernels import reference

Epilogue = Literal["none", "silu_mul"]


def padded_rows(rows: int) -> int:
    """The number of rows to compute for `rows`: four sizes to each power of two, so at most a quarter more.

    oneDNN keeps code and buffers for every number of rows that it has met, in a cache of 1,024 products: a process that met every
    number from 1 to 256 with five weights of SmolLM2's sizes grew by 722 MB, with these sizes by 134 MB (one run of each).
    """
    step = 1 << max(0, rows.bit_length() - 3)
    return -(-rows // step) * step


class Linear:
    """`[T, in] → [T, out]`, or `[T, out / 2]` with the `silu_mul` epilogue over `[gate | up]` rows."""

    def __init__(self, scheme: Literal["dense"] = "dense") -> None:
        self.scheme = scheme
        self._shards: list[Tensor] = []
        self._weight = torch.empty(0)
        self._packed = False

    def load(self, shard: Tensor) -> None:
        """Append rows `[rows, in]`; q, k, v or gate and up come one after another."""
        self._shards.append(shard)

    def finalize(self) -> None:
        """Join what was loaded into the form that calls use."""
        weight = self._shards[0] if len(self._shards) == 1 else torch.cat(self._shards)
        self._shards = []
        self._packed = weight.device.type == "cpu" and _packs(weight.dtype)
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, None) if self._packed else weight

    def __call__(self, x: Tensor, epilogue: Epilogue = "none", addend: Tensor | None = None) -> Tensor:
        out = self._multiply(x)
        if addend is not None:
            out = out + addend
        return self._silu_mul(out) if epilogue == "silu_mul" else out

    def argmax(self, x: Tensor) -> Tensor:
        return self(x).argmax(-1)

    def _silu_mul(self, x: Tensor) -> Tensor:
        return reference.silu_mul(x)

    def _multiply(self, x: Tensor) -> Tensor:
        if not self._packed:
            return functional.linear(x, self._weight)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, None, "none", [], "")
        return out


def _packs(dtype: torch.dtype) -> bool:
    """bf16 needs instructions that not every CPU has; without them `functional.linear` works, slowly."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return False
    return dtype != torch.bfloat16 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


# Rows of a product under `--batch-invariant`. For SmolLM2's layers (fp32, 2 cores with AVX2, in one run) a product of 16 rows took
# 1.9 to 3.3 times as long as one of 1 row, one of 32 rows 3.5 to 4.9 times; larger tiles serve prompts better, few streams worse.
# What all of it costs: `python -m bench.batch_invariant`.
TILE_ROWS = 16


class TiledLinear(Linear):
    """Every product has `TILE_ROWS` rows, missing ones zeros, so one kernel adds up every row in one order.

    What a row gives then depends on nothing else in the batch, if it does not depend on the row's place in the tile: that is
    measured at load (`model/invariance.py`).
    """

    def _multiply(self, x: Tensor) -> Tensor:
        rows = len(x)
        padded = functional.pad(x, (0, 0, 0, -rows % TILE_ROWS))
        return torch.cat([Linear._multiply(self, tile) for tile in torch.split(padded, TILE_ROWS)])[:rows]

    def _silu_mul(self, x: Tensor) -> Tensor:
        return reference.silu_mul_by_exp(x)
