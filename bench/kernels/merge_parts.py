"""Two parts of an answer merged: of a decoding step of one sequence, and of a prompt's chunk."""

from functools import partial

import torch

from bench.kernels.kernel_case import KernelCase
from bench.kernels.paged_context import HEAD_DIM, HEADS
from octavo_kernels.gpu.merge_parts import merge_parts


def cases() -> list[KernelCase]:
    return [_case(1), _case(2048)]


def _case(tokens: int) -> KernelCase:
    first, second = torch.randn(2, tokens, HEADS, HEAD_DIM, device="cuda")
    first_log_sums, second_log_sums = torch.randn(2, tokens, HEADS, device="cuda")
    out = torch.empty(tokens, HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    run = partial(merge_parts, first, first_log_sums, second, second_log_sums, out)
    moved = (first, second, first_log_sums, second_log_sums, out)
    return KernelCase(f"merge_parts T{tokens}", run, sum(part.numel() * part.element_size() for part in moved), 0)
