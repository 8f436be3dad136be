"""What lies below the pool: pages kept elsewhere, by their content's key, and brought back. Protocols and values; no tensors.

A store takes copies of pages (`put`), says what it has (`lookup`) and brings it into pages of the pool (`get`). What a `put` reads
is copied in the order of the device's work before the call returns, so its pages are free at once; what a `get` writes is its
caller's until the job is done, whatever becomes of whom it was for.

A block carries a checksum of its content and of what it was made by (`tiers/block_file.py`). One that does not agree is dropped
and not found: nothing but what was put ever comes back.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from octavo_runtime.messages import TierStats


class Found(NamedTuple):
    """So many of the keys that were asked for, from the first on without a gap, and how long it takes to get them.

    `seconds` is None while nothing was measured yet.
    """

    blocks: int
    seconds: float | None


class Job(Protocol):
    """A `get` under way."""

    @property
    def done(self) -> bool:
        """Its pages are not written any more."""
        ...

    @property
    def blocks(self) -> int:
        """When done: so many blocks have arrived, from the first on, each as it was put."""
        ...

    def give_up(self) -> None:
        """Nobody waits for it any more: it is done sooner."""
        ...


class BlockStore(Protocol):
    """Called by the engine's loop only; no call waits for a transfer. Keys are 32 bytes."""

    @property
    def lasting_blocks(self) -> int:
        """How many blocks may still be there after a restart."""
        ...

    @property
    def on_their_way(self) -> int:
        """Blocks that were put and are not yet where they stay."""
        ...

    def has(self, key: bytes) -> bool:
        """Whether to put this block would do nothing."""
        ...

    def lasts(self, key: bytes) -> bool:
        """Whether this block would still be there after a restart; it counts as used."""
        ...

    def lookup(self, keys: Sequence[bytes]) -> Found:
        """What there is; it counts as used."""
        ...

    def put(self, keys: Sequence[bytes], pages: Sequence[int]) -> int:
        """Keep what these pages hold; how many are kept now, those that were there already included. The others it has no room
        for, in its memory or its queue."""
        ...

    def get(self, keys: Sequence[bytes], pages: Sequence[int]) -> Job:
        """Bring blocks that `lookup` found into pages, which nobody else uses until the job is done."""
        ...

    def poll(self) -> None:
        """Take note of what was transferred since."""
        ...

    def stats(self) -> list[TierStats]:
        """The counts of each tier, the fastest first."""
        ...


class OverflowPages(Protocol):
    """Pages below the pool that a sequence longer than it can have: P + 1 … P + `pages`, where the pool has P."""

    @property
    def pages(self) -> int: ...

    def move(self, moves: Sequence[tuple[int, int]]) -> None:
        """Copy pool pages to overflow pages, (source, target) each: the sources may be written right after the call."""
        ...


class Demotion(Protocol):
    """What the memory ladder asks of the tiers (its level 2); to swap a sequence is to preempt it."""

    def write_ahead(self, most: int) -> int:
        """Copy up to `most` of the pages that would be reused next into the tiers, so that reuse finds them there; how many were
        copied. 0 when the tiers have them all, or no room."""
        ...
