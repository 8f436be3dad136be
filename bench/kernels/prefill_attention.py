"""Paged prefill: a prompt of 8 k at once, a long one, chunks after a prefix, many short prompts, 8-bit pages."""

from functools import partial

from bench.kernels.kernel_case import KernelCase
from bench.kernels.paged_context import HEAD_DIM, HEADS, OPTIONS, paged_context
from octavo_kernels.gpu.prefill_attention import prefill_attention
from octavo_kernels.page_layout import KvFormat


def cases() -> list[KernelCase]:
    return [
        _case(1, 8192, 8192),
        _case(1, 32_768, 32_768),
        _case(4, 2048, 16_384),
        _case(64, 128, 128),
        _case(1, 8192, 8192, kv_format="fp8_token"),
    ]


def _case(sequences: int, q_len: int, kv_len: int, *, kv_format: KvFormat = "dense") -> KernelCase:
    context = paged_context(sequences, q_len, kv_len, kv_format)
    run = partial(
        prefill_attention,
        context.q,
        context.kv_layer,
        context.batch,
        context.layout,
        OPTIONS,
        context.out,
        q_len,
    )
    seen = q_len * (kv_len - q_len) + q_len * (q_len + 1) // 2  # pairs of a query and a slot at or before its own
    name = f"prefill_attention B{sequences} Q{q_len} S{kv_len} {kv_format}"
    return KernelCase(name, run, context.moved_bytes, 4 * sequences * HEADS * HEAD_DIM * seen)
