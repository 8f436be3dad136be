"""Whole pages of 32 layers (64 KiB a layer: 16 slots of 8 KV heads of 128 in bf16): copied, gathered for a tier, scattered back."""

from functools import partial

import torch

from bench.kernels.kernel_case import KernelCase
from octavo_kernels.gpu.pages import copy_pages, gather_pages, scatter_pages

_LAYERS, _PAGES, _PAGE_BYTES, _MOVED = 32, 512, 65_536, 128


def cases() -> list[KernelCase]:
    pool = torch.zeros(_LAYERS, _PAGES, _PAGE_BYTES, dtype=torch.uint8, device="cuda")
    staging = torch.zeros(_MOVED, _LAYERS, _PAGE_BYTES, dtype=torch.uint8, device="cuda")
    shuffled = torch.randperm(_PAGES, device="cuda")
    sources, targets = shuffled[:_MOVED], shuffled[_MOVED : 2 * _MOVED]
    return [
        _case("copy", partial(copy_pages, pool, sources, targets)),
        _case("gather", partial(gather_pages, pool, sources, staging)),
        _case("scatter", partial(scatter_pages, staging, pool, targets)),
    ]


def _case(name: str, run: partial[None]) -> KernelCase:
    return KernelCase(f"pages {name} {_MOVED} of {_LAYERS} layers", run, 2 * _MOVED * _LAYERS * _PAGE_BYTES, 0)
