"""Batches for the model's tests: sequences whose pages lie shuffled in a poisoned pool, fed in whatever chunks a test likes."""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from octavo_runtime.model.attention import AttentionBackend, AttentionMeta, AttentionShape, ReferenceBackend
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.kv_pool import KvPool

PAGE_SIZE = 4
POISON = 1e4  # finite, as all that a page may hold, and larger than any key or value of a tiny model


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Tokens `start … start + count - 1` of sequence `row`."""

    row: int
    start: int
    count: int


def shuffled_pages(rows: int, tokens: int, page_size: int = PAGE_SIZE, seed: int = 7) -> Tensor:
    """A page table `[rows, P]` over a shuffled pool; page 0 is the sink and in no row."""
    width = -(-tokens // page_size)
    order = torch.randperm(rows * width, generator=torch.Generator().manual_seed(seed)) + 1
    return order.view(rows, width)


def attention_meta(chunks: list[Chunk], table: Tensor, page_size: int = PAGE_SIZE) -> AttentionMeta:
    """The step that runs `chunks` in this order."""
    q_lens = tuple(chunk.count for chunk in chunks)
    kv_lens = tuple(chunk.start + chunk.count for chunk in chunks)
    pos = torch.cat([torch.arange(chunk.start, chunk.start + chunk.count) for chunk in chunks])
    row = torch.cat([torch.full((chunk.count,), chunk.row) for chunk in chunks])
    width = -(-max(kv_lens) // page_size)
    page_table = torch.zeros(len(chunks), width, dtype=torch.int64)
    for index, (chunk, kv_len) in enumerate(zip(chunks, kv_lens, strict=True)):
        count = -(-kv_len // page_size)
        page_table[index, :count] = table[chunk.row, :count]
    return AttentionMeta(
        cu_q=torch.tensor([0, *torch.tensor(q_lens).cumsum(0)], dtype=torch.int32),
        kv_len=torch.tensor(kv_lens, dtype=torch.int32),
        pos=pos,
        page_table=page_table,
        slot_map=table[row, pos // page_size] * page_size + pos % page_size,
        q_lens=q_lens,
        kv_lens=kv_lens,
    )


@dataclasses.dataclass(frozen=True)
class Form:
    """What a model is run with: attention back end, page size and order of pages."""

    backend: Callable[[AttentionShape], AttentionBackend] = ReferenceBackend
    page_size: int = PAGE_SIZE
    seed: int = 7


def run_steps(
    decoder: Decoder,
    sequences: list[list[int]],
    steps: list[list[Chunk]],
    form: Form = Form(),
    dtype: torch.dtype = torch.float32,
) -> list[Tensor]:
    """Logits of every token of each sequence `[len, vocab]`, computed in these steps; not a number where none computes one."""
    config, page_size = decoder.config, form.page_size
    backend = form.backend(AttentionShape(config.heads, config.kv_heads, config.head_dim, page_size, dtype))
    table = shuffled_pages(len(sequences), max(map(len, sequences)), page_size, form.seed)
    pool = KvPool(config.layers, table.numel(), backend.page_bytes, torch.device("cpu"))
    for layer in pool.layers:
        layer.view(dtype).fill_(POISON)
    out = [torch.full((len(tokens), config.vocab_size), torch.nan) for tokens in sequences]
    for chunks in steps:
        ids = [token for chunk in chunks for token in sequences[chunk.row][chunk.start : chunk.start + chunk.count]]
        with torch.inference_mode():
            meta = attention_meta(chunks, table, page_size)
            hidden = decoder.hidden(torch.tensor(ids), meta, backend, pool.layers)
            logits = decoder.logits(hidden)
        for chunk, part in zip(chunks, torch.split(logits, [chunk.count for chunk in chunks]), strict=True):
            out[chunk.row][chunk.start : chunk.start + chunk.count] = part
    return out
