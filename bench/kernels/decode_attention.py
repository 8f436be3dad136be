"""Paged decode at 256 k slots and more: a full batch, a long context alone, 8-bit pages, drafts to verify."""

import dataclasses
from functools import partial

import torch

from bench.kernels.kernel_case import KernelCase
from bench.kernels.paged_context import HEAD_DIM, HEADS, KV_HEADS, OPTIONS, paged_context
from octavo_kernels.gpu.decode_attention import decode_attention, split_count, workspace_floats
from octavo_kernels.page_layout import KvFormat


def cases() -> list[KernelCase]:
    return [
        _case(64, 4096),
        _case(128, 2048),
        _case(1, 262_144),
        _case(64, 4096, kv_format="fp8_token"),
        _case(64, 4096, kv_format="int8_token"),
        _case(64, 4096, kv_format="fp8_head"),
        _case(32, 8192, queries=4),
    ]


def _case(sequences: int, kv_len: int, *, queries: int = 1, kv_format: KvFormat = "dense") -> KernelCase:
    context = paged_context(sequences, queries, kv_len, kv_format)
    options = OPTIONS
    if kv_format == "fp8_head":
        options = dataclasses.replace(OPTIONS, head_scales=torch.ones(2, KV_HEADS, device="cuda"))
    splits = split_count(sequences, KV_HEADS, context.processors)
    workspace = torch.empty(workspace_floats(sequences * queries, HEADS, HEAD_DIM, splits), device="cuda")
    run = partial(
        decode_attention,
        context.q,
        context.kv_layer,
        context.batch,
        context.layout,
        options,
        context.out,
        queries,
        splits,
        workspace,
    )
    name = f"decode_attention B{sequences} Q{queries} S{kv_len} {kv_format} splits {splits}"
    return KernelCase(name, run, context.moved_bytes, 4 * sequences * queries * HEADS * HEAD_DIM * kv_len)
