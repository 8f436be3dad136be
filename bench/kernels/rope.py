"""Rotary embedding of 32 query and 8 key heads of 128, in prefill and in a decode step."""

from functools import partial

import torch

from bench.kernels.kernel_case import KernelCase
from octavo_kernels.gpu.rope import rope

_HEADS, _KV_HEADS, _WIDTH = 32, 8, 128


def cases() -> list[KernelCase]:
    return [_case(8192), _case(128)]


def _case(tokens: int) -> KernelCase:
    qkv = torch.randn(tokens, _HEADS + 2 * _KV_HEADS, _WIDTH, dtype=torch.bfloat16, device="cuda")
    angles = torch.randn(tokens, _WIDTH // 2, device="cuda")
    pos = torch.arange(tokens, device="cuda")
    rotated = _HEADS + _KV_HEADS
    tables = 2 * angles.numel() * angles.element_size()
    moved = 2 * tokens * rotated * _WIDTH * qkv.element_size() + tables
    return KernelCase(f"rope T{tokens}", partial(rope, qkv, angles.cos(), angles.sin(), pos, rotated), moved, 0)
