"""What keys and values are kept as in pages, and the plain torch definition of the 8-bit kinds.

- `dense`: values of the model's type (bf16 with the CPU kernels).
- `int8`, `fp8` (e4m3): a byte for each value, and an fp16 scale for each token and KV head: x = code · scale. By the scale the
  token's greatest magnitude becomes the greatest code, 127 or 448. Scales are written with their token and never change, so pages
  are shared, copied and moved as bytes.
"""

import dataclasses
from typing import Literal, get_args

import torch
from torch import Tensor

from octavo_kernels import reference_paged

KvKind = Literal["dense", "int8", "fp8"]
KV_KINDS: tuple[KvKind, ...] = get_args(KvKind)

_SCALE_BYTES = torch.float16.itemsize


@dataclasses.dataclass(frozen=True)
class KvForm:
    """How a sequence's pages are filled: tokens of a page, and the kinds of keys and values. Fixed when it is admitted."""

    page_size: int
    keys: KvKind = "dense"
    values: KvKind = "dense"

    @property
    def name(self) -> str:
        """Part of a layout's id: pages of another form hold something else."""
        return f"{self.page_size}-{self.keys}-{self.values}"

    @property
    def is_dense(self) -> bool:
        return self.keys == self.values == "dense"

    def page_bytes(self, kv_heads: int, head_dim: int, dtype: torch.dtype) -> int:
        """Of one layer, `dtype` being that of what is dense; before what a back end rounds up to."""
        kinds = (self.keys, self.values)
        return self.page_size * kv_heads * sum(token_bytes(kind, head_dim, dtype) for kind in kinds)


@dataclasses.dataclass(frozen=True, eq=False)
class Forms:
    """Which of several forms the pages of a step's sequences have, by number."""

    tokens: Tensor  # uint8 [T]
    sequences: Tensor  # uint8 [B]


def token_bytes(kind: KvKind, head_dim: int, dtype: torch.dtype) -> int:
    """Bytes of one token's keys, or values, of one KV head; `dtype`: of what is dense."""
    return head_dim * dtype.itemsize if kind == "dense" else head_dim + _SCALE_BYTES


def encode(x: Tensor, kind: KvKind) -> tuple[Tensor, Tensor]:
    """x `[..., D]` → codes uint8 `[..., D]`, scales fp16 `[...]`. What is beyond a scale's range saturates, NaN counts as 0."""
    assert kind != "dense"
    integers = kind == "int8"
    scales = reference_paged.token_scales(x, reference_paged.INT8_MAX if integers else reference_paged.E4M3_MAX)
    codes = x.float() * (1.0 / scales.float()).unsqueeze(-1)
    return reference_paged.encode_int8(codes) if integers else reference_paged.encode_e4m3(codes), scales


def decode(codes: Tensor, scales: Tensor, kind: KvKind) -> Tensor:
    """fp32 `[..., D]` of codes uint8 `[..., D]` and scales `[...]`."""
    assert kind != "dense"
    wide = reference_paged.decode_int8(codes) if kind == "int8" else reference_paged.decode_e4m3(codes)
    return wide * scales.float().unsqueeze(-1)
