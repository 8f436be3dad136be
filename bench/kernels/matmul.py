"""The fixed-tile product at the QKV projection of an 8B model: a prefill's rows and a decode step's."""

from functools import partial

import torch

from bench.kernels.kernel_case import KernelCase
from octavo_kernels.gpu.matmul import matmul

_COLUMNS, _DEPTH = 6144, 4096


def cases() -> list[KernelCase]:
    return [_case(8192), _case(128), _case(1)]


def _case(rows: int) -> KernelCase:
    x, weight = (torch.randn(count, _DEPTH, dtype=torch.bfloat16, device="cuda") for count in (rows, _COLUMNS))
    out = torch.empty(rows, _COLUMNS, dtype=torch.bfloat16, device="cuda")
    moved = (x.numel() + weight.numel() + out.numel()) * x.element_size()
    return KernelCase(f"matmul M{rows}", partial(matmul, x, weight, out), moved, 2 * rows * _COLUMNS * _DEPTH)
