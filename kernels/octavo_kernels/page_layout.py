"""What the bytes of a KV page mean to the kernels of a GPU.

A page holds, for each KV head, the keys of all its slots and then their values: `[Hkv][K | V][page_size][D]`. One head's keys
of one page are one run of memory, and so are its values: what a program that works on one KV head reads. Four formats:

- `dense`: values of the model's type.
- `fp8_head`: e4m3 bytes; x = byte · scale of its head, a constant that comes with the checkpoint (fp32 `[2, Hkv]`).
- `fp8_token`: e4m3 bytes; x = byte · scale of its token and head, fp16, in the page behind the values: `[Hkv][K | V][page_size]`.
- `int8_token`: the same with int8 bytes.

Scales of a token are written with it and never change, so a page may be shared, copied and moved as bytes.
"""

import dataclasses
from typing import Literal

import torch
from torch import Tensor

KvFormat = Literal["dense", "fp8_head", "fp8_token", "int8_token"]
TOKEN_SCALED = ("fp8_token", "int8_token")

# Pages begin where a vector load may; kernels that move whole pages count in words of 8 bytes.
ALIGNMENT_BYTES = 16


@dataclasses.dataclass(frozen=True)
class PageLayout:
    """The layout of a KV layer `uint8[pages, bytes]`, whose pages may be longer than `page_bytes` (another format's)."""

    kv_heads: int
    head_dim: int
    page_size: int
    dtype: torch.dtype
    format: KvFormat = "dense"

    @property
    def layout_id(self) -> str:
        """Two layers with the same id may exchange pages."""
        name = str(self.dtype).removeprefix("torch.")
        return f"triton-{self.format}-{self.page_size}x{self.kv_heads}x{self.head_dim}-{name}"

    @property
    def value_dtype(self) -> torch.dtype:
        """What a stored value is read as."""
        return self.dtype if self.format == "dense" else torch.uint8

    @property
    def scales_begin_bytes(self) -> int:
        """Where a page's own scales begin, which is where its values end."""
        return 2 * self.kv_heads * self.page_size * self.head_dim * self.value_dtype.itemsize

    @property
    def page_bytes(self) -> int:
        scales = 2 * self.kv_heads * self.page_size * torch.float16.itemsize if self.format in TOKEN_SCALED else 0
        return -(-(self.scales_begin_bytes + scales) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES

    def values(self, kv_layer: Tensor) -> Tensor:
        """The layer as `[pages, …]` of `value_dtype`; its row stride is the distance of two pages."""
        self._check(kv_layer)
        return kv_layer.view(self.value_dtype)

    def scales(self, kv_layer: Tensor) -> Tensor | None:
        """The layer as fp16 `[pages, …]`, where pages have scales of their own."""
        return kv_layer.view(torch.float16) if self.format in TOKEN_SCALED else None

    def _check(self, kv_layer: Tensor) -> None:
        if kv_layer.dtype != torch.uint8 or kv_layer.dim() != 2 or kv_layer.stride(1) != 1:
            raise ValueError(f"a KV layer is uint8 [pages, bytes], not {kv_layer.dtype} {tuple(kv_layer.shape)}")
        stride = kv_layer.stride(0)
        if kv_layer.shape[1] < self.page_bytes or stride % ALIGNMENT_BYTES:
            raise ValueError(
                f"a page of {kv_layer.shape[1]} bytes, {stride} apart, cannot hold {self.layout_id}: "
                f"it needs {self.page_bytes} bytes and a distance that is a multiple of {ALIGNMENT_BYTES}"
            )
        if kv_layer.data_ptr() % ALIGNMENT_BYTES:
            raise ValueError(f"a KV layer must begin at a multiple of {ALIGNMENT_BYTES} bytes")
