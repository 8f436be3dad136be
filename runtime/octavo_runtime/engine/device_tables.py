"""What a device keeps from step to step: the page table of every slot, and the newest token that it drew for each.

One row more than there are slots: the sink's, whose pages are all the sink page.
"""

import dataclasses

import torch
from torch import Tensor

from octavo_kernels import reference
from octavo_runtime.engine.device_slots import DRAWN, PageChanges
from octavo_runtime.engine.staging import Staging
from octavo_runtime.model.kv_pool import KvPool


@dataclasses.dataclass(frozen=True, eq=False)
class Changes:
    """`PageChanges` and page copies on the device."""

    cleared: Tensor
    places: Tensor
    pages: Tensor
    sources: Tensor
    targets: Tensor


def put_changes(staging: Staging, changes: PageChanges, copies: list[tuple[int, int]]) -> Changes:
    return Changes(
        cleared=staging.put(changes.cleared),
        places=staging.put(changes.places),
        pages=staging.put(changes.pages),
        sources=staging.put_ids([source for source, _ in copies]),
        targets=staging.put_ids([target for _, target in copies]),
    )


class DeviceTables:
    def __init__(self, slots: int, width: int, device: torch.device) -> None:
        self.pages = torch.zeros(slots + 1, width, dtype=torch.int64, device=device)
        self.newest = torch.zeros(slots + 1, dtype=torch.int64, device=device)

    def apply(self, changes: Changes, pool: KvPool) -> None:
        """Change the page table, then copy pages, all sources before any target is written."""
        if len(changes.cleared):
            self.pages.index_fill_(0, changes.cleared, 0)
        if len(changes.places):
            self.pages.view(-1).index_copy_(0, changes.places, changes.pages)
        if len(changes.sources):
            for layer in pool.layers:
                reference.copy_pages(layer, changes.sources, changes.targets)

    def known_ids(self, ids: Tensor, slots: Tensor, singles: int) -> Tensor:
        """ids `[T]` with the newest drawn token in place of DRAWN; only the first `singles` sequences, of one token, have it."""
        newest = self.newest.index_select(0, slots[:singles])
        first = torch.where(ids[:singles] == DRAWN, newest, ids[:singles])
        return first if singles == len(ids) else torch.cat((first, ids[singles:]))

    def drew(self, slots: Tensor, ids: Tensor) -> None:
        self.newest.index_copy_(0, slots, ids)
