"""Contexts in pages for the tests of attention: permuted page tables, and NaN wherever a kernel has no business.

Poisoned: the pages of nobody, page 0, the slots beyond a context, the keys and values beside q in its buffer, and out.
"""

import dataclasses

import numpy as np
import torch
from torch import Tensor

from octavo_kernels import reference_paged
from octavo_kernels.page_layout import PageLayout
from octavo_kernels.paged_batch import AttentionOptions, PagedBatch

POISON = 0xFF  # in every byte: NaN in all types, and in a token's fp16 scale
SPARE_ROWS = 2  # of q, after those of the sequences

# An attention in fp32 sums in another order; in fp16 weights and the result are rounded to 11 bits.
TOLERANCE = {torch.float32: 4e-6, torch.float16: 2**-9}


def check_close(out: Tensor, expected: Tensor, tolerance: float) -> None:
    """By numpy: the first call of torch's own comparison imports 500 modules, which takes seconds."""
    np.testing.assert_allclose(out.float().cpu().numpy(), expected.cpu().numpy(), rtol=tolerance, atol=tolerance)


@dataclasses.dataclass(frozen=True, eq=False)
class PagedCase:
    layout: PageLayout
    q: Tensor  # [T + SPARE_ROWS, Hq, D], a view of a qkv buffer
    kv_layer: Tensor
    batch: PagedBatch
    head_scales: Tensor | None

    def options(
        self, window: int | None = None, softcap: float | None = None, *, sinks: bool = False
    ) -> AttentionOptions:
        scores = torch.linspace(-1, 3, self.q.shape[1], device=self.q.device) if sinks else None
        return AttentionOptions(self.layout.head_dim**-0.5, window, softcap, scores, self.head_scales)

    def poisoned_out(self) -> Tensor:
        return torch.full(self.q.shape, torch.nan, dtype=self.q.dtype, device=self.q.device)

    def check(self, out: Tensor, options: AttentionOptions) -> None:
        """out against the reference; the spare rows must be as they were."""
        expected = reference_paged.attend(self.q, self.kv_layer, self.batch, self.layout, options)
        tolerance = TOLERANCE[self.layout.dtype]
        check_close(out[:-SPARE_ROWS], expected[:-SPARE_ROWS], tolerance)
        assert out[-SPARE_ROWS:].isnan().all()

    def check_log_sums(self, log_sums: Tensor, options: AttentionOptions) -> None:
        """As `check`."""
        expected = reference_paged.log_sums(self.q, self.kv_layer, self.batch, self.layout, options)
        check_close(log_sums[:-SPARE_ROWS], expected[:-SPARE_ROWS], TOLERANCE[self.layout.dtype])
        assert log_sums[-SPARE_ROWS:].isnan().all()


def paged_case(
    layout: PageLayout,
    group: int,
    lengths: list[tuple[int, int]],
    device: torch.device,
    index_type: torch.dtype = torch.int64,
) -> PagedCase:
    """lengths: (q_len, kv_len) of each sequence."""
    random = torch.Generator().manual_seed(len(lengths))
    q_lens, kv_lens = zip(*lengths, strict=True)
    counts = [-(-kv_len // layout.page_size) for kv_len in kv_lens]
    ids = torch.split(torch.randperm(sum(counts) + 3, generator=random)[: sum(counts)] + 1, counts)
    table = torch.zeros(len(lengths), max(counts) + 1, dtype=torch.int64)
    kv_layer = torch.full((sum(counts) + 4, layout.page_bytes), POISON, dtype=torch.uint8)
    head_scales = None
    if layout.format == "fp8_head":
        head_scales = torch.linspace(0.005, 0.02, 2 * layout.kv_heads).view(2, layout.kv_heads)
    for row, (kv_len, pages) in enumerate(zip(kv_lens, ids, strict=True)):
        table[row, : len(pages)] = pages
        slots = torch.arange(kv_len)
        slot_map = table[row, slots // layout.page_size] * layout.page_size + slots % layout.page_size
        k, v = torch.randn(2, kv_len, layout.kv_heads, layout.head_dim, generator=random).to(layout.dtype)
        reference_paged.write_kv(k, v, kv_layer, slot_map, layout, head_scales)
    rows, heads = sum(q_lens) + SPARE_ROWS, group * layout.kv_heads
    qkv = torch.full((rows, heads + 2 * layout.kv_heads, layout.head_dim), torch.nan, dtype=layout.dtype, device=device)
    qkv[:, :heads] = torch.randn(rows, heads, layout.head_dim, generator=random).to(device, layout.dtype)
    batch = PagedBatch(
        cu_q=torch.tensor([0, *q_lens]).cumsum(0).to(device, torch.int32),
        kv_len=torch.tensor(kv_lens).to(device, torch.int32),
        page_table=table.to(device, index_type),
    )
    scales = None if head_scales is None else head_scales.to(device)
    return PagedCase(layout, qkv[:, :heads], kv_layer.to(device), batch, scales)
