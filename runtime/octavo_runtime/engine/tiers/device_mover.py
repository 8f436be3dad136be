"""Pages between a pool on a device and pinned rows on the host, beside the device's computing.

Gathering goes through a staging buffer: the pages are copied there in the order of the computing stream's work, so that they may be
written at once; from there they go to the host on a stream of their own, which a worker's thread waits for. What comes back goes
from its row straight into the pool's layers on that stream.
"""

import threading
from collections.abc import Sequence

import torch
from torch import Tensor

from octavo_runtime.engine.device_stream import DeviceStream, Mark
from octavo_runtime.engine.tiers.block_file import Row
from octavo_runtime.engine.tiers.page_mover import Arrive
from octavo_runtime.model.kv_pool import KvPool

_STAGED_PAGES = 16
_STAGINGS = 2


class DeviceMover:
    """`computing` is the stream that steps run on, `copying` another one of the same device."""

    most_at_once = _STAGED_PAGES

    def __init__(self, pool: KvPool, computing: DeviceStream, copying: DeviceStream) -> None:
        self._pool = pool
        self._computing = computing
        self._copying = copying
        shape = _STAGED_PAGES, len(pool.layers), pool.page_bytes
        self._stagings = [torch.empty(shape, dtype=torch.uint8, device=pool.layers[0].device) for _ in range(_STAGINGS)]
        self._gathered = computing.new_mark()
        self._gathered.set()

    @property
    def block_bytes(self) -> int:
        return len(self._pool.layers) * self._pool.page_bytes

    def rows(self, count: int) -> Row:
        rows: Row = self._computing.host_buffer(count * self.block_bytes).view(count, self.block_bytes).numpy()
        return rows

    def gather(self, pages: Sequence[int], rows: Sequence[Row]) -> Arrive | None:
        if not self._stagings:
            return None
        staging = self._stagings.pop()
        with self._computing.active(), torch.inference_mode():
            # One copy a page and layer, as lists of pages would have to go to the device first, which waits for it.
            for place, page in enumerate(pages):
                for index, layer in enumerate(self._pool.layers):
                    staging[place, index].copy_(layer[page], non_blocking=True)
            self._gathered = self._computing.new_mark()
            self._gathered.set()
        return _Arrival(self, staging, list(rows), self._gathered)

    def scatter(self, row: Row, page: int) -> None:
        self._gathered.wait()  # a page may have been given up for this one while its content was still to be gathered
        parts = torch.from_numpy(row).view(len(self._pool.layers), self._pool.page_bytes)
        with self._copying.active(), torch.inference_mode():
            for layer, part in zip(self._pool.layers, parts, strict=True):
                layer[page].copy_(part, non_blocking=True)
            self._wait_for_copies()

    def fetch(self, staging: Tensor, rows: list[Row], gathered: Mark) -> None:
        """From the staging buffer, which is free again, to the rows."""
        gathered.wait()
        with self._copying.active(), torch.inference_mode():
            for row, block in zip(rows, staging, strict=False):
                torch.from_numpy(row).copy_(block.view(-1), non_blocking=True)
            self._wait_for_copies()
        self._stagings.append(staging)

    def _wait_for_copies(self) -> None:
        mark = self._copying.new_mark()
        mark.set()
        mark.wait()


class _Arrival:
    """The way of one gather's pages to their rows: gone once, whoever waits for it first."""

    def __init__(self, mover: DeviceMover, staging: Tensor, rows: list[Row], gathered: Mark) -> None:
        self._mover = mover
        self._left: tuple[Tensor, list[Row], Mark] | None = (staging, rows, gathered)
        self._going = threading.Lock()

    def __call__(self) -> None:
        with self._going:
            if self._left is not None:
                self._mover.fetch(*self._left)
                self._left = None
