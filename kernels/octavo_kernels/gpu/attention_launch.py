"""What the launches of both attention kernels share: checks of arguments, compile-time arguments, the table of tiles.

No row of the tables was measured on a GPU by us yet; each says where it comes from.
"""

import dataclasses
from collections.abc import Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase
from octavo_kernels.page_layout import TOKEN_SCALED, PageLayout
from octavo_kernels.paged_batch import AttentionOptions

# Triton decides where a kernel is defined, which is as this is imported.
INTERPRETED = bool(triton.knobs.runtime.interpret)
# A step's groups of sequences are parts of its tensors and begin anywhere: one compiled kernel for all of them.
UNALIGNED = ["cu_q", "kv_len", "page_table"]
DOT_TYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


@dataclasses.dataclass(frozen=True)
class Launch:
    """rows of q and slots of a context that a program takes at a time."""

    rows: int
    tile: int
    num_warps: int
    num_stages: int


def check_attention(
    q: Tensor, out: Tensor, layout: PageLayout, options: AttentionOptions, log_sums: Tensor | None
) -> None:
    _, heads, head_dim = q.shape
    if head_dim != layout.head_dim or heads % layout.kv_heads:
        raise ValueError(f"q {tuple(q.shape)} does not fit {layout.kv_heads} KV heads of {layout.head_dim}")
    if q.stride()[1:] != (head_dim, 1):
        raise ValueError(f"the heads of q must be adjacent, not {q.stride()[1:]} apart")
    if out.shape != q.shape or not out.is_contiguous():
        raise ValueError(f"out must be contiguous {tuple(q.shape)}, not {tuple(out.shape)} by {out.stride()}")
    if log_sums is not None and (
        log_sums.shape != out.shape[:2] or log_sums.dtype != torch.float32 or not log_sums.is_contiguous()
    ):
        raise ValueError(f"log_sums must be contiguous fp32 {tuple(out.shape[:2])}, not {tuple(log_sums.shape)}")
    if layout.dtype not in DOT_TYPES:
        raise ValueError(f"attention has kernels for {', '.join(map(str, DOT_TYPES))}, not for {layout.dtype}")
    if (options.head_scales is None) != (layout.format != "fp8_head"):
        raise ValueError(f"head_scales belong to the format fp8_head, and this layer is {layout.format}")


def attention_constexprs(
    layout: PageLayout, options: AttentionOptions, heads: int, token_stride: int, page_distance_bytes: int
) -> dict[str, object]:
    """What the compiler may know: everything that is fixed for a model. 0 stands for no window and no cap."""
    return {
        "token_stride": token_stride,
        "heads": heads,
        "kv_heads": layout.kv_heads,
        "head_dim": layout.head_dim,
        "page_size": layout.page_size,
        "page_stride": page_distance_bytes // layout.value_dtype.itemsize,
        "scale_stride": page_distance_bytes // torch.float16.itemsize,
        "scale_begin": layout.scales_begin_bytes // torch.float16.itemsize,
        "kv_format": layout.format,
        "window": options.window or 0,
        "softcap": options.softcap or 0.0,
        "dims_padded": padded_dims(layout),
        "dot_kind": _dot_type(layout.dtype),
    }


def padded_dims(layout: PageLayout) -> int:
    """The head dimension as a tile has it: a power of two, of at least the 16 that a matrix product takes."""
    return max(16, int(triton.next_power_of_2(layout.head_dim)))


def _dot_type(dtype: torch.dtype) -> tl.dtype:
    """The type products are formed in. The interpreter multiplies bf16 by its bits: fp32 there."""
    return tl.float32 if INTERPRETED and dtype == torch.bfloat16 else DOT_TYPES[dtype]


def aot_case(
    name: str,
    kernel: triton.JITFunction,
    layout: PageLayout,
    heads: int,
    options: AttentionOptions,
    launch: Launch,
    own: Mapping[str, object],
    *,
    sinks: bool = False,
    parts: bool = False,
    log_sums: bool = False,
) -> AotCase:
    """An attention kernel of a bf16 model whose q is a view of a qkv buffer.

    own: the kernel's own compile-time arguments; parts: it writes `sums` and `tops`; log_sums: it writes those, and fp32.
    """
    pointers = {
        "q": "*bf16",
        "values": "*bf16" if layout.format == "dense" else "*u8",
        "scales": "*fp16" if layout.format in TOKEN_SCALED else None,
        "head_scales": "*fp32" if layout.format == "fp8_head" else None,
        "sinks": "*bf16" if sinks else None,
        "cu_q": "*i32",
        "kv_len": "*i32",
        "page_table": "*i64",
        "table_stride": "i32",
        "out": "*fp32" if log_sums else "*bf16",
        "sums": "*fp32" if parts else None,
        "tops": "*fp32" if parts else None,
        "log_sums": "*fp32" if log_sums else None,
        "scale": "fp32",
    }
    signature = {key: kind for key, kind in pointers.items() if kind is not None}
    absent = {key: None for key, kind in pointers.items() if kind is None and key in kernel.arg_names}
    token_stride = (heads + 2 * layout.kv_heads) * layout.head_dim
    fixed = attention_constexprs(layout, options, heads, token_stride, layout.page_bytes)
    return AotCase(name, kernel, signature, {**absent, **fixed, **own}, launch.num_warps, launch.num_stages)
