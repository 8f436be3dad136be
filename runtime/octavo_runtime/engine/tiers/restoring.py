"""Blocks on their way back to the pool: one after the other, each checked before it is put into its page."""

import dataclasses
import time
from collections.abc import Callable

from octavo_runtime.engine.speed import Speed
from octavo_runtime.engine.tiers.block_file import Row
from octavo_runtime.messages import TierStats


class TierJob:
    """A `get` under way, in parts: what each tier has to bring."""

    def __init__(self, blocks: int) -> None:
        self.unwanted = False
        self._arrived = [False] * blocks
        self._parts = 0

    @property
    def done(self) -> bool:
        return not self._parts

    @property
    def blocks(self) -> int:
        return next((place for place, arrived in enumerate(self._arrived) if not arrived), len(self._arrived))

    def give_up(self) -> None:
        self.unwanted = True

    def begin_part(self) -> None:
        self._parts += 1

    def land_part(self, arrived: "list[Wanted]") -> None:
        self._parts -= 1
        for one in arrived:
            self._arrived[one.place] = True


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The block of a job at this place, and the page that it goes to."""

    place: int
    key: bytes
    page: int


@dataclasses.dataclass(frozen=True)
class Brought:
    """What became of a part: blocks in their pages, the one that was not what was put, and how long it took."""

    arrived: list[Wanted]
    spoiled: Wanted | None
    seconds: float


def bring(
    job: TierJob,
    wanted: list[Wanted],
    read: Callable[[Wanted], Row | None],
    scatter: Callable[[Row, int], None],
) -> Brought:
    """Up to the first block that `read` finds spoiled, which it says by None, or to where the job is not wanted any more."""
    began_s = time.monotonic()
    arrived: list[Wanted] = []
    spoiled: Wanted | None = None
    for one in wanted:
        content = None if job.unwanted else read(one)
        if content is None:
            spoiled = None if job.unwanted else one
            break
        scatter(content, one.page)
        arrived.append(one)
    return Brought(arrived, spoiled, time.monotonic() - began_s)


@dataclasses.dataclass
class TierCounts:
    """A tier's totals, and how fast it brings back bytes."""

    hits: int = 0
    written_bytes: int = 0
    read_bytes: int = 0
    dropped: int = 0
    corrupt: int = 0
    speed: Speed = dataclasses.field(default_factory=Speed)

    def brought(self, brought: Brought, block_bytes: int) -> None:
        count = len(brought.arrived)
        self.hits += count
        self.read_bytes += count * block_bytes
        self.corrupt += brought.spoiled is not None
        if count:
            self.speed.record(count * block_bytes, brought.seconds)

    def stats(self, tier: str, blocks: int, held_bytes: int) -> TierStats:
        return TierStats(
            tier, blocks, held_bytes, self.hits, self.written_bytes, self.read_bytes, self.dropped, self.corrupt
        )
