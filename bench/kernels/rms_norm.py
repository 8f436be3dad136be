"""RMS norm: hidden states of 4096 with their residual, in prefill and in a decode step, and the query heads in the QKV buffer."""

from functools import partial

import torch

from bench.kernels.kernel_case import KernelCase
from octavo_kernels.gpu.rms_norm import rms_norm

_WIDTH, _HEADS, _HEAD_WIDTH = 4096, 32, 128


def cases() -> list[KernelCase]:
    return [_residual(8192), _residual(128), _heads(8192)]


def _residual(tokens: int) -> KernelCase:
    x, delta, out = (torch.randn(tokens, _WIDTH, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    weight = torch.ones(_WIDTH, dtype=torch.bfloat16, device="cuda")
    # Read x and delta, write both sums.
    moved = 4 * x.numel() * x.element_size()
    return KernelCase(f"rms_norm residual T{tokens}", partial(rms_norm, x, weight, 1e-5, out, delta), moved, 0)


def _heads(tokens: int) -> KernelCase:
    qkv = torch.randn(tokens, 48, _HEAD_WIDTH, dtype=torch.bfloat16, device="cuda")
    weight = torch.ones(_HEAD_WIDTH, dtype=torch.bfloat16, device="cuda")
    heads = qkv[:, :_HEADS]
    moved = 2 * heads.numel() * heads.element_size()
    return KernelCase(f"rms_norm heads T{tokens}", partial(rms_norm, heads, weight, 1e-5, heads), moved, 0)
