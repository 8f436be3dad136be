"""Contexts in shuffled pages, as the rows of attention measure them: 32 query and 8 KV heads of 128, in bf16 or 8 bits."""

import dataclasses

import torch
from torch import Tensor

from octavo_kernels.page_layout import KvFormat, PageLayout
from octavo_kernels.paged_batch import AttentionOptions, PagedBatch

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
OPTIONS = AttentionOptions(HEAD_DIM**-0.5)


@dataclasses.dataclass(frozen=True, eq=False)
class PagedContext:
    layout: PageLayout
    kv_layer: Tensor
    batch: PagedBatch
    q: Tensor  # [T, Hq, D], a view of a qkv buffer
    out: Tensor

    @property
    def processors(self) -> int:
        return int(torch.cuda.get_device_properties(self.q.device).multi_processor_count)

    @property
    def moved_bytes(self) -> int:
        """Each context's keys and values (with their scales) once, q and out."""
        slots = self.batch.page_table.numel() * self.layout.page_size
        return slots * self.layout.page_bytes // self.layout.page_size + 2 * self.q.numel() * self.q.element_size()


def paged_context(sequences: int, q_len: int, kv_len: int, kv_format: KvFormat = "dense") -> PagedContext:
    """Equal sequences; kv_len is whole pages (of 16 slots, 32 where a value has 8 bits)."""
    layout = PageLayout(KV_HEADS, HEAD_DIM, 16 if kv_format == "dense" else 32, torch.bfloat16, kv_format)
    pages = sequences * kv_len // layout.page_size
    kv_layer = torch.empty(pages + 1, layout.page_bytes, dtype=torch.uint8, device="cuda")
    if kv_format == "dense":
        layout.values(kv_layer).normal_()
    else:
        kv_layer.random_(0, 0x3B)  # small positive values, and scales that are fp16 numbers
    table = torch.randperm(pages, device="cuda").view(sequences, -1) + 1
    starts = torch.arange(sequences + 1, dtype=torch.int32, device="cuda") * q_len
    kv_lens = torch.full((sequences,), kv_len, dtype=torch.int32, device="cuda")
    qkv = torch.randn(sequences * q_len, HEADS + 2 * KV_HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    q = qkv[:, :HEADS]
    out = torch.empty(q.shape, dtype=q.dtype, device="cuda")
    return PagedContext(layout, kv_layer, PagedBatch(starts, kv_lens, table), q, out)
