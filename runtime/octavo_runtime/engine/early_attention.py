"""Attention of a device's step in two parts: over the early pages of sequences by the host, over the rest by the device.

Layer by layer: the queries travel to the host; the device attends to the pool's pages; meanwhile the host attends to those in its
memory; its part travels back and is merged by the logarithms of the sums. The host waits for the device once a layer, so whoever
submits such a step is held up until its last layer began.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from octavo_runtime.engine.device_stream import DeviceStream
from octavo_runtime.model.attention import AttentionMeta, AttentionShape, HeadNorms, Importance, refuse_options
from octavo_runtime.model.attention_parts import Block, Part, PartsBackend, attend_blocks
from octavo_runtime.model.rotary import Rotary

# Slots that are read at a time, and the scores of them that are there at once: 16 MB.
_BLOCK_SLOTS, _BLOCK_SCORES = 1024, 4 << 20


@dataclasses.dataclass(frozen=True)
class EarlyRows:
    """A sequence that has early pages: its rows of a step's tokens, where its pages lie on the host, and its first token's slot."""

    begin: int
    end: int
    pages: tuple[int, ...]
    own_slot: int


class HostAttention:
    """The host's side, for steps of at most `most_tokens`: one after the other."""

    def __init__(self, backend: PartsBackend, shape: AttentionShape, stream: DeviceStream, most_tokens: int) -> None:
        self._backend = backend
        self._shape = shape
        self._mark = stream.new_mark()
        self._device = stream.device
        rows = most_tokens * shape.heads
        self._q = stream.host_buffer(rows * shape.head_dim * shape.dtype.itemsize).view(shape.dtype)
        self._out = stream.host_buffer(rows * shape.head_dim * torch.float32.itemsize).view(torch.float32)
        self._log_sums = stream.host_buffer(rows * torch.float32.itemsize).view(torch.float32)

    def ask(self, q: Tensor) -> None:
        """Give the device the copy of the queries `[T, Hq, D]`, after all that it was given before."""
        self._q[: q.numel()].view(q.shape).copy_(q.contiguous(), non_blocking=True)
        self._mark.set()

    def answer(self, tokens: int, rows: Sequence[EarlyRows], layer: Tensor, scale: float, window: int | None) -> Part:
        """Wait for the queries, attend, and give the device the copy of what it gave. The last answer has arrived by then."""
        self._mark.wait()
        shape = tokens, self._shape.heads, self._shape.head_dim
        count = tokens * self._shape.heads
        q, out = (buffer[: count * self._shape.head_dim].view(shape) for buffer in (self._q, self._out))
        log_sums = self._log_sums[:count].view(shape[:2]).fill_(-torch.inf)
        for one in rows:
            some = slice(one.begin, one.end)
            blocks = self._blocks(one, layer, window)
            out[some], log_sums[some] = attend_blocks(
                q[some], blocks, self._shape.kv_heads, scale, window, one.own_slot
            )
        return Part(out.to(self._device, non_blocking=True), log_sums.to(self._device, non_blocking=True))

    def _blocks(self, rows: EarlyRows, layer: Tensor, window: int | None) -> Iterator[Block]:
        """Those that a query sees something of."""
        page_size = self._shape.page_size
        queries = (rows.end - rows.begin) * self._shape.heads
        step = max(1, min(_BLOCK_SLOTS, _BLOCK_SCORES // queries) // page_size)
        first = 0 if window is None else max(0, rows.own_slot - window + 1) // page_size
        for begin in range(first, len(rows.pages), step):
            pages = rows.pages[begin : begin + step]
            keys, values = self._backend.read(layer, _places(pages))
            yield Block(begin * page_size, keys, values)


class SplitAttention:
    """A back end for one walk through the layers of one step, whose batch is a `narrowed` one."""

    weighs = False

    def __init__(
        self, backend: PartsBackend, host: HostAttention, rows: Sequence[EarlyRows], layers: Sequence[Tensor]
    ) -> None:
        self.name = backend.name
        self.layout_id = backend.layout_id
        self.page_bytes = backend.page_bytes
        self._backend = backend
        self._host = host
        self._rows = rows
        self._layers = iter(layers)  # on the host

    def rotate_and_write(
        self, qkv: Tensor, rotary: Rotary, norms: HeadNorms | None, kv_layer: Tensor, meta: AttentionMeta
    ) -> Tensor:
        return self._backend.rotate_and_write(qkv, rotary, norms, kv_layer, meta)

    def attend(
        self,
        q: Tensor,
        kv_layer: Tensor,
        meta: AttentionMeta,
        scale: float,
        window: int | None,
        softcap: float | None,
        sinks: Tensor | None,
        importance_out: Importance | None = None,
    ) -> Tensor:
        refuse_options("split", softcap, sinks)
        assert importance_out is None
        self._host.ask(q)
        late = self._backend.attend_part(q, kv_layer, meta, scale, window)
        early = self._host.answer(len(q), self._rows, next(self._layers), scale, window)
        return self._backend.merge(late, early, q.dtype)


def narrowed(meta: AttentionMeta, early: Tensor, pages: Sequence[int], page_size: int) -> AttentionMeta:
    """The batch without the first `pages[b]` pages of each sequence; early int64 `[B]`: the same on the device."""
    width = meta.page_table.shape[1]
    columns = torch.arange(width, device=early.device) + early.unsqueeze(1)
    lens = zip(meta.kv_lens, pages, strict=True)
    return dataclasses.replace(
        meta,
        kv_len=(meta.kv_len - early * page_size).to(meta.kv_len.dtype),
        page_table=meta.page_table.gather(1, columns.clamp_(max=width - 1)),
        kv_lens=tuple(kv_len - count * page_size for kv_len, count in lens),
    )


def _places(pages: tuple[int, ...]) -> Tensor | slice:
    """A slice where they follow each other: that needs no copy of them."""
    if pages[-1] - pages[0] == len(pages) - 1 and all(a < b for a, b in itertools.pairwise(pages)):
        return slice(pages[0], pages[-1] + 1)
    return torch.tensor(pages)
