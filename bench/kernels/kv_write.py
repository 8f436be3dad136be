"""Keys and values of a prefill's step and of a decode's into shuffled slots, in each format."""

from functools import partial

import torch

from bench.kernels.kernel_case import KernelCase
from bench.kernels.paged_context import HEAD_DIM, HEADS, KV_HEADS
from octavo_kernels.gpu.kv_write import kv_write
from octavo_kernels.page_layout import KvFormat, PageLayout


def cases() -> list[KernelCase]:
    return [
        _case(8192, "dense"),
        _case(8192, "fp8_head"),
        _case(8192, "fp8_token"),
        _case(8192, "int8_token"),
        _case(128, "dense"),
    ]


def _case(tokens: int, kv_format: KvFormat) -> KernelCase:
    layout = PageLayout(KV_HEADS, HEAD_DIM, 16 if kv_format == "dense" else 32, torch.bfloat16, kv_format)
    pages = tokens // layout.page_size
    kv_layer = torch.zeros(pages + 1, layout.page_bytes, dtype=torch.uint8, device="cuda")
    qkv = torch.randn(tokens, HEADS + 2 * KV_HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    _, k, v = torch.split(qkv, [HEADS, KV_HEADS, KV_HEADS], dim=1)
    page = torch.randperm(pages, device="cuda") + 1
    slots = (page[:, None] * layout.page_size + torch.arange(layout.page_size, device="cuda")).flatten()
    scales = torch.full((2, KV_HEADS), 0.01, device="cuda") if kv_format == "fp8_head" else None
    run = partial(kv_write, k, v, kv_layer, slots, layout, scales)
    read = 2 * k.numel() * k.element_size() + slots.numel() * slots.element_size()
    return KernelCase(f"kv_write T{tokens} {kv_format}", run, read + pages * layout.page_bytes, 0)
