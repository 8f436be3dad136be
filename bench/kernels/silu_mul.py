"""SiLU · up of 14336 gates, in prefill and in a decode step."""

from functools import partial

import torch

from bench.kernels.kernel_case import KernelCase
from octavo_kernels.gpu.silu_mul import silu_mul

_WIDTH = 14336


def cases() -> list[KernelCase]:
    return [_case(8192), _case(128)]


def _case(tokens: int) -> KernelCase:
    x = torch.randn(tokens, 2 * _WIDTH, dtype=torch.bfloat16, device="cuda")
    out = torch.empty(tokens, _WIDTH, dtype=torch.bfloat16, device="cuda")
    return KernelCase(f"silu_mul T{tokens}", partial(silu_mul, x, out), 3 * out.numel() * out.element_size(), 0)
