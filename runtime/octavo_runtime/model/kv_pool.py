"""The KV pages of all layers, as bytes.

Per layer `uint8[pages, page_bytes]`: only the attention back end knows what a page's bytes mean. Page 0 is a sink that padding may
read and write; it is never handed out. Pages are zeroed once, so that slots beyond a context are finite wherever a masked product
reads them.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from octavo_kernels import reference


class KvPool:
    """`layers[i]` is layer i's `uint8[pages + 1 + below, page_bytes]`; usable page ids are 1 … pages, and behind them `below` more,
    which only sequences longer than the pool have.

    `zeros`: gives a writable buffer of so many bytes, all zero and really there; without it torch allocates them.
    """

    def __init__(
        self,
        layers: int,
        pages: int,
        page_bytes: int,
        device: torch.device,
        zeros: Callable[[int], Any] | None = None,
        below: int = 0,
    ) -> None:
        self.pages = pages
        self.below = below
        self.page_bytes = page_bytes
        self.layers: list[Tensor]
        if zeros is None:
            # fill_ touches every byte: the memory is really there before the first request.
            self.layers = [
                torch.empty(pages + 1 + below, page_bytes, dtype=torch.uint8, device=device).fill_(0)
                for _ in range(layers)
            ]
            return
        total_bytes = layers * (pages + 1 + below) * page_bytes
        memory = torch.frombuffer(zeros(total_bytes), dtype=torch.uint8, count=total_bytes)
        self.layers = list(memory.view(layers, pages + 1 + below, page_bytes))

    @classmethod
    def joined(cls, pools: Sequence[Self]) -> Self:
        """The layers of pools of one shape, one pool's after another's: what moves whole pages sees them as one."""
        whole = copy.copy(pools[0])
        whole.layers = [layer for pool in pools for layer in pool.layers]
        return whole

    @property
    def total_bytes(self) -> int:
        """Without what is below."""
        return len(self.layers) * (self.pages + 1) * self.page_bytes

    def zero(self, pages: list[int]) -> None:
        """Make pages numbers in every form again, in every layer."""
        if pages:
            for layer in self.layers:
                layer[pages] = 0

    def copy(self, copies: list[tuple[int, int]]) -> None:
        """Copy whole pages (source, target) in every layer; all sources are read before a target is written."""
        if not copies:
            return
        sources, targets = (torch.tensor(ids, device=self.layers[0].device) for ids in zip(*copies, strict=True))
        for layer in self.layers:
            reference.copy_pages(layer, sources, targets)
