"""Pages below the pool for a sequence that is longer than it, in the host's memory.

Page ids go on after the pool's: pool pages 1 … P, then overflow pages P + 1 … P + S. Nothing is written there but by `move`, so of
a sequence only pages that are behind what it writes may lie there.

On a CPU they lie behind the pool's own, and attention reads them where they are. On a GPU there are two ways; which one a step
takes is said in `engine/early_pages.py`. The host attends to them where they are; or they are brought in ahead of their layer:
such a step runs on a scratch layer. Before each layer all pages of the step are copied into it, under their ids, and after the
layer what the step wrote goes back to the pool. That takes one layer's bytes of the GPU's memory, and in time a copy of the
step's whole context.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from octavo_runtime.model.kv_pool import KvPool


class PagesBelow:
    """Those of a pool that has some: on a CPU."""

    def __init__(self, pool: KvPool) -> None:
        self.pages = pool.below
        self._pool = pool

    def move(self, moves: Sequence[tuple[int, int]]) -> None:
        """Copy pool pages to overflow pages, (source, target) each."""
        self._pool.copy(list(moves))


class Overflow:
    """`pages` more pages for `pool`. All work goes where the pool's other work goes: see `run_on`."""

    def __init__(self, pool: KvPool, pages: int) -> None:
        device = pool.layers[0].device
        self.pages = pages
        self._pool = pool
        self._active: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        self.lower = [  # of each layer, on the host: overflow page P + 1 first
            torch.empty(pages, pool.page_bytes, dtype=torch.uint8, pin_memory=device.type == "cuda").fill_(0)
            for _ in pool.layers
        ]
        self._scratch = torch.zeros(pool.pages + pages + 1, pool.page_bytes, dtype=torch.uint8, device=device)

    def run_on(self, active: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        """Within such a context torch gives its work to the stream that steps run on."""
        self._active = active

    def move(self, moves: Sequence[tuple[int, int]]) -> None:
        """Copy pool pages to overflow pages, (source, target) each, before any step that is given later."""
        with self._active(), torch.inference_mode():
            for layer, lower in zip(self._pool.layers, self.lower, strict=True):
                for source, target in moves:
                    lower[target - self._pool.pages - 1].copy_(layer[source], non_blocking=True)

    def layers(self, used: Iterable[int], written: Iterable[int]) -> "StreamedLayers":
        """The layers for a step that reads the pages `used`, and writes these pool pages of them. Padding reads the sink page."""
        first = self._pool.pages + 1
        pages = sorted({0, *used})
        device = self._scratch.device
        resident = torch.tensor([page for page in pages if page < first], device=device)
        spans = list(_spans(page for page in pages if page >= first))
        return StreamedLayers(self, resident, spans, torch.tensor(sorted(set(written)), device=device))

    def streamed(self, resident: Tensor, spans: list[tuple[int, int]], written: Tensor) -> Iterator[Tensor]:
        scratch, first = self._scratch, self._pool.pages + 1
        for layer, lower in zip(self._pool.layers, self.lower, strict=True):
            scratch.index_copy_(0, resident, layer.index_select(0, resident))
            for begin, end in spans:
                scratch[begin:end].copy_(lower[begin - first : end - first], non_blocking=True)
            yield scratch
            layer.index_copy_(0, written, scratch.index_select(0, written))

    def __len__(self) -> int:
        return len(self.lower)


class StreamedLayers(Sequence[Tensor]):
    """A step's layers for one walk through them, in order: each is there until the next one is asked for."""

    def __init__(self, overflow: Overflow, resident: Tensor, spans: list[tuple[int, int]], written: Tensor) -> None:
        self._overflow = overflow
        self._pages = resident, spans, written

    def __iter__(self) -> Iterator[Tensor]:
        return self._overflow.streamed(*self._pages)

    def __len__(self) -> int:
        return len(self._overflow)

    def __getitem__(self, index: object) -> Tensor:  # type: ignore[override]  # one walk only
        raise TypeError("streamed layers come one after the other")


def _spans(pages: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as spans without a gap: from … to below."""
    for _, span in itertools.groupby(enumerate(pages), key=lambda numbered: numbered[1] - numbered[0]):
        members = [page for _, page in span]
        yield members[0], members[-1] + 1
