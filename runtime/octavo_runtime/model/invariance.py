"""Whether a loaded model's logits depend on the batch: measured at load, on the machine that will serve.

`--batch-invariant` rests on fixed shapes (`linear.TiledLinear`, `tiled_attention.py`), and on what the libraries below make of
them: that rows of one product are added up alike, that attention takes its keys in blocks of one size. Tests show that where they
run; another CPU takes other kernels. So the flag is honoured only where this measurement finds equal bits.
"""

import dataclasses

import torch
from torch import Tensor

from octavo_runtime.model.attention import AttentionBackend, AttentionMeta
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.kv_pool import KvPool

# The shorter context's sums break elsewhere than those of a whole block of 512 keys, where products depend on that (MKL halves 193
# to 383 terms, but not 512); the longer one's last tokens stand on both sides of a block's edge.
_CONTEXTS = (203, 514)
_COMPANY = (1, 14, 20)  # beside a long sequence: the row stands within a tile, at the end of one, in a second one
_SINK = 0  # the page of the company's short sequences, which nobody looks at


@dataclasses.dataclass(frozen=True)
class _Part:
    """Tokens `start … start + count − 1` of a sequence."""

    start: int
    count: int
    pages: list[int]


def is_batch_invariant(
    decoder: Decoder, backend: AttentionBackend, pool: KvPool, page_size: int, max_model_len: int
) -> bool:
    """Whether the last tokens of a short and a long context get the same bits as one chunk alone and one by one in company.

    Runs nine small steps over the first pages of `pool`, which nobody uses yet, and leaves them zeroed.
    """
    contexts = [min(context, max_model_len, pool.pages * page_size) for context in _CONTEXTS]
    pages = list(range(1, -(-contexts[-1] // page_size) + 1))
    longest = _Part(contexts[-1] - 1, 1, pages)

    def logits(parts: list[_Part]) -> Tensor:
        """Of all tokens of a step; a token's id follows from its position."""
        meta = _meta(parts, page_size)
        return decoder.logits(decoder.hidden(meta.pos % decoder.config.vocab_size, meta, backend, pool.layers))

    def equal(context: int) -> bool:
        first = max(0, context - len(_COMPANY))
        held = pages[: -(-context // page_size)]
        alone = logits([_Part(first, context - first, held)])
        in_company = [
            logits([longest, *[_Part(0, 1, [_SINK])] * company, _Part(position, 1, held)])[-1]
            for position, company in zip(range(first, context), _COMPANY, strict=False)
        ]
        return torch.equal(alone, torch.stack(in_company))

    with torch.inference_mode():
        logits([_Part(0, contexts[-1], pages)])  # the history of both contexts
        found = all(equal(context) for context in contexts)
    for layer in pool.layers:
        layer[: len(pages) + 1].zero_()
    return found


def _meta(parts: list[_Part], page_size: int) -> AttentionMeta:
    q_lens = tuple(part.count for part in parts)
    kv_lens = tuple(part.start + part.count for part in parts)
    width = max(len(part.pages) for part in parts)
    table = torch.tensor([part.pages + [_SINK] * (width - len(part.pages)) for part in parts])
    pos = torch.cat([torch.arange(part.start, part.start + part.count) for part in parts])
    row = torch.arange(len(parts)).repeat_interleave(torch.tensor(q_lens))
    return AttentionMeta(
        cu_q=torch.tensor([0, *q_lens], dtype=torch.int32).cumsum(0, dtype=torch.int32),
        kv_len=torch.tensor(kv_lens, dtype=torch.int32),
        pos=pos,
        page_table=table,
        slot_map=table[row, pos // page_size] * page_size + pos % page_size,
        q_lens=q_lens,
        kv_lens=kv_lens,
    )
