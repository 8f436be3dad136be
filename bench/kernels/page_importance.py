"""The attention that pages get, for selective caching: a decoding batch in budgets of 2 k, one long budget, a prompt's chunk."""

from functools import partial

import torch

from bench.kernels.kernel_case import KernelCase
from bench.kernels.paged_context import HEAD_DIM, HEADS, OPTIONS, paged_context
from octavo_kernels.gpu.page_importance import page_importance


def cases() -> list[KernelCase]:
    return [_case(64, 1, 2048), _case(1, 1, 32_768), _case(1, 512, 2048)]


def _case(sequences: int, q_len: int, kv_len: int) -> KernelCase:
    context = paged_context(sequences, q_len, kv_len)
    chosen = torch.arange(sequences, dtype=torch.int32, device="cuda")
    mass = torch.zeros(sequences, context.batch.page_table.shape[1], device="cuda")
    layout, batch = context.layout, context.batch
    run = partial(page_importance, context.q, context.kv_layer, batch, layout, OPTIONS, chosen, mass, q_len)
    seen = q_len * (kv_len - q_len) + q_len * (q_len + 1) // 2  # pairs of a query and a slot at or before its own
    name = f"page_importance B{sequences} Q{q_len} S{kv_len}"
    # At the least the keys once, which are half of what attention reads.
    return KernelCase(name, run, context.moved_bytes // 2, 2 * sequences * HEADS * HEAD_DIM * seen)
