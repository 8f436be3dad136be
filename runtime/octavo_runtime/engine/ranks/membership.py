"""What loading and running a model need to know of its ranks: which one this is, and how they agree."""

import mmap
from collections.abc import Callable
from typing import Protocol

import torch

from octavo_runtime.engine.ranks.orders import Order
from octavo_runtime.engine.ranks.placement import Placement
from octavo_runtime.engine.reservation import Reservation
from octavo_runtime.model.collectives import Collectives


class Ranks(Protocol):
    """One rank of several; `device` is its own."""

    @property
    def rank(self) -> int: ...

    @property
    def placement(self) -> Placement: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def collectives(self) -> Collectives: ...

    def agree(self, value: int) -> int:
        """The least of all ranks' numbers, once all have come here; all come in the same order. Raises RankError."""
        ...

    def kv_memory(self, reserved: Reservation) -> Callable[[int], mmap.mmap]:
        """What gives zeroed memory for a pool on CPUs: what was reserved for it, or memory that rank 0 sees too."""
        ...


class Alone:
    """Rank 0's side of others where there are none."""

    agree_on_memory = True

    def tell(self, order: Order) -> None:
        """Nobody."""

    def check(self) -> None:
        """Nobody can fail."""

    def close(self) -> None:
        """Nothing was started."""
