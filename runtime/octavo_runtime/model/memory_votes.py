"""How the ranks on CPUs agree that one of them found no memory for its part of a step, so that none of them goes on with it.

Each sum carries a number of each rank behind its own: not zero where that rank has failed. A rank that fails between two sums
takes part in the next one all the same, with whatever its buffer holds, and all ranks leave the step in the same place. The sums of
a step are alike, so the one that has failed knows what the others wait for. A last vote, of these numbers alone, comes after them,
before the ranks gather what rank 0 draws from. The buffer is there from the start: voting takes no memory.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn

import torch
from torch import Tensor

_LIBRARY_BYTES = 4 << 20  # more than an all-reduce takes for itself, a megabyte for each of two parts


class PeerMemoryError(MemoryError):
    """Ranks found no memory for their part of the step. All ranks raise it, in the same place."""

    def __init__(self, ranks: Sequence[int]) -> None:
        named = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
        super().__init__(f"{named} found no memory")


class MemoryVotes:
    """Of one rank. `all_reduce` sums a tensor over all of them in place; `sums` of a step have `most` numbers each at most."""

    def __init__(self, rank: int, size: int, most: int, sums: int, all_reduce: Callable[[Tensor], None]) -> None:
        self._rank = rank
        self._size = size
        self._sums = sums
        self._all_reduce = all_reduce
        self._buffer = torch.zeros(most + size)
        self._numbers = 0
        self._left = 0
        self.settled = True  # nothing can be voted on: between steps, and after a step's last vote

    def begin(self, numbers: int) -> None:
        """A step whose sums have so many numbers."""
        assert numbers + self._size <= len(self._buffer)
        self._numbers, self._left, self.settled = numbers, self._sums, False

    def summed(self, part: Tensor) -> Tensor:
        """The sum over all ranks' parts. Raises PeerMemoryError; another error for want of memory is this rank's own: `lack`."""
        assert part.numel() == self._numbers
        assert self._left
        self._buffer[: self._numbers].view(part.shape).copy_(part)
        check_library_memory()
        self._left -= 1
        self._vote(self._numbers, lacks=False)
        return self._buffer[: self._numbers].view(part.shape).to(part.dtype, copy=True)

    def settle(self) -> None:
        """The step's last vote: this rank has what it takes."""
        assert not self._left
        check_library_memory()
        self.settled = True
        self._vote(0, lacks=False)

    def lack(self) -> NoReturn:
        """This rank found no memory: all ranks raise PeerMemoryError. Call it when what the step held is given back."""
        if self.settled:
            raise RuntimeError(f"rank {self._rank} found no memory when the ranks had agreed on the step")
        self._vote(self._numbers if self._left else 0, lacks=True)
        raise AssertionError("a vote that was lost without an error")

    def _vote(self, numbers: int, lacks: bool) -> None:
        votes = self._buffer[numbers : numbers + self._size].zero_()
        votes[self._rank] = float(lacks)
        self._all_reduce(self._buffer[: numbers + self._size])
        if votes.any():
            self._left, self.settled = 0, True
            raise PeerMemoryError([rank for rank, vote in enumerate(votes.tolist()) if vote])


def check_library_memory() -> None:
    """Raises what a failed allocation raises, where the collective that follows would fail inside the library, where ranks part."""
    torch.empty(_LIBRARY_BYTES, dtype=torch.uint8)
