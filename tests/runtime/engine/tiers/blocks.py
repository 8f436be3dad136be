"""A small pool, its pages' contents, and a chain of tiers around it."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from octavo_runtime.engine.block_store import Job
from octavo_runtime.engine.tiers.block_file import BlockKind
from octavo_runtime.engine.tiers.chain import TierChain
from octavo_runtime.engine.tiers.disk_store import DiskStore
from octavo_runtime.engine.tiers.page_mover import HostMover
from octavo_runtime.model.kv_pool import KvPool

LAYERS, PAGES, PAGE_BYTES = 3, 40, 64
KIND = BlockKind(root=bytes(range(32)), block_bytes=LAYERS * PAGE_BYTES)


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


class Tiers:
    """`pool` with a content of its own in every page, and tiers below it."""

    def __init__(self, rows: int = 8, folder: Path | None = None, blocks: int = 1000, kind: BlockKind = KIND) -> None:
        self.pool = KvPool(LAYERS, PAGES, PAGE_BYTES, torch.device("cpu"))
        for number, layer in enumerate(self.pool.layers):
            layer[:] = torch.arange(PAGES + 1)[:, None] + 100 * number
        self.disk = None if folder is None else DiskStore(folder, blocks * kind.file_bytes, kind)
        self.chain = TierChain(HostMover(self.pool), kind, rows, self.disk)

    def page(self, number: int) -> list[bytes]:
        return [layer[number].numpy().tobytes() for layer in self.pool.layers]

    def put(self, *numbers: int) -> int:
        """The pages of these numbers, each under the key of its number; wait until they are where they can be."""
        kept = self.chain.put([key(number) for number in numbers], numbers)
        self.settle()
        return kept

    def get(self, numbers: Sequence[int], pages: Sequence[int]) -> Job:
        return self.chain.get([key(number) for number in numbers], pages)

    def bring(self, numbers: Sequence[int], pages: Sequence[int]) -> int:
        """Wait for them: how many have arrived."""
        job = self.get(numbers, pages)
        self.until(lambda: job.done)
        return job.blocks

    def until(self, condition: Callable[[], bool]) -> None:
        give_up_s = time.monotonic() + 10.0
        while not condition():
            assert time.monotonic() < give_up_s, "what was waited for does not come about"
            time.sleep(0.001)
            self.chain.poll()

    def settle(self) -> None:
        """Until nothing is on its way."""
        store = self.chain._memory.store
        self.until(lambda: not any(block.pins for block in store._blocks.values()))

    def found(self, *numbers: int) -> int:
        return self.chain.lookup([key(number) for number in numbers]).blocks
