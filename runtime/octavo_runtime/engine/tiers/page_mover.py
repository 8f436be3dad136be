"""Pages between the pool and rows of the memory tier: a row holds a page's bytes of all layers, one after the other."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from octavo_runtime.engine.tiers.block_file import Row
from octavo_runtime.model.kv_pool import KvPool

Arrive = Callable[[], None]


class PageMover(Protocol):
    """`gather` is called by the engine's loop, `scatter` and what `gather` returns by workers' threads."""

    @property
    def block_bytes(self) -> int:
        """Of a row."""
        ...

    @property
    def most_at_once(self) -> int:
        """Pages that one `gather` takes."""
        ...

    def rows(self, count: int) -> Row:
        """`uint8[count, block_bytes]` that is really there."""
        ...

    def gather(self, pages: Sequence[int], rows: Sequence[Row]) -> Arrive | None:
        """Copy pages as they are after all work that was given so far: they may be written right after the call.

        What is returned waits until the rows are filled; any of several calls of it does. None where too much is under way.
        """
        ...

    def scatter(self, row: Row, page: int) -> None:
        """Fill a page that nobody uses; it is filled when the call returns."""
        ...


class HostMover:
    """Between two pools in the host's memory: a copy is done when it is given."""

    most_at_once = 1 << 30

    def __init__(self, pool: KvPool) -> None:
        self._layers = [layer.numpy() for layer in pool.layers]
        self._page_bytes = pool.page_bytes

    @property
    def block_bytes(self) -> int:
        return len(self._layers) * self._page_bytes

    def rows(self, count: int) -> Row:
        return np.full((count, self.block_bytes), 0, dtype=np.uint8)  # touches every byte, as zeros() would not

    def gather(self, pages: Sequence[int], rows: Sequence[Row]) -> Arrive | None:
        for page, row in zip(pages, rows, strict=True):
            for layer, part in zip(self._layers, self._parts(row), strict=True):
                part[:] = layer[page]
        return _arrived

    def scatter(self, row: Row, page: int) -> None:
        for layer, part in zip(self._layers, self._parts(row), strict=True):
            layer[page] = part

    def _parts(self, row: Row) -> Row:
        return row.reshape(len(self._layers), self._page_bytes)


def _arrived() -> None:
    pass
