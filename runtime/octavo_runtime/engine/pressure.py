"""Which level of the memory ladder a shortage of KV pages calls for, and what is done at each (DESIGN-runtime 5.4). Pure.

pressure = pages that those who run and those who wait for pages will refer to / usable pages: how many pools of work there are.
Cached pages that nobody refers to are available and count as nothing. A level is taken at once when pressure reaches its threshold,
and left for a lower one after `DWELL_S` in which pressure stayed below `LEFT_BELOW` of it. Where pages run out it is at least level
4, whatever waits.
"""

import dataclasses
from typing import NamedTuple

LEFT_BELOW = 0.8
DWELL_S = 2.0
SHORTAGE_LEVEL = 4

NORMAL_QUANTILE, STRICT_QUANTILE = 0.9, 0.99
SLOWER_PREFILL = 2  # the part of a step that prompts get beside decodes is divided by this
FEW_ENTER = 1  # new sequences a step
CAP_SHARE = 4  # so many requests of the capped length fill the pool


class Step(NamedTuple):
    """One level of the ladder: from which pressure on it is taken, what is done. Its name is in `messages.LADDER`."""

    pressure: float
    does: str


LOSSY_LEVEL = 6
STEPS = (
    Step(0.9, "expects the longest outputs, drafts nothing, prefetches nothing"),
    Step(1.0, "writes cold pages to tiers and swaps the least urgent"),
    Step(1.5, "computes prompts in smaller shares, lets few in"),
    Step(2.0, "preempts before pages lack"),
    Step(3.0, "caps the length of new requests"),
    Step(4.0, "keeps new requests' KV in 8 bits"),
    Step(8.0, "refuses new requests"),
)
TOP = len(STEPS)


@dataclasses.dataclass(frozen=True)
class Means:
    """What there is to act with, beyond what always is."""

    tiers: bool = False  # where pages can be written to
    lossy: bool = False  # allowed, and something that can


@dataclasses.dataclass(frozen=True)
class Signs:
    """What is known of the pool and of who needs it, in pages."""

    usable: int
    referenced: int
    peak: int  # predicted, of those that run
    waiting: int  # what those who wait for pages will need
    free: int  # blank or cached
    soon: int  # what those that run take within a second
    next: int = 0  # what the next steps' decodes take

    @property
    def pressure(self) -> float:
        return (max(self.referenced, self.peak) + self.waiting) / self.usable

    @property
    def runs_out(self) -> bool:
        """Pages will lack in the next steps; or within a second, and nobody is expected to end before."""
        return self.next > self.free or (self.peak > self.usable and self.soon > self.free)


@dataclasses.dataclass(frozen=True)
class Standing:
    """A level; and since when less would do, and how much less."""

    level: int = 0
    less_since_s: float | None = None
    most_since: int = 0  # the highest level that was called for meanwhile


@dataclasses.dataclass(frozen=True)
class Measures:
    """What is done at a level."""

    quantile: float = NORMAL_QUANTILE  # of output lengths, that admission expects
    drafts: bool = True
    prefetch: bool = True  # from tiers
    demotes: bool = False  # cold cached pages to tiers, ahead of their reuse
    swaps: bool = False  # the least urgent sequences, to tiers
    prefill_divisor: int = 1
    few_enter: bool = False  # and only into pages that are free now
    preempts_ahead: bool = False
    caps_length: bool = False
    lossy: bool = False
    refuses: bool = False


def next_standing(before: Standing, signs: Signs, means: Means, now_s: float) -> Standing:
    """The level from now on: up at once, down after a dwell."""
    wanted = _called_for(signs, means, 1.0)
    if wanted > before.level:
        return Standing(wanted)
    kept = min(before.level, _called_for(signs, means, LEFT_BELOW))
    if kept == before.level:
        return Standing(before.level)
    since_s = now_s if before.less_since_s is None else before.less_since_s
    most = max(kept, before.most_since)
    if now_s - since_s < DWELL_S:
        return Standing(before.level, since_s, most)
    return Standing(most)


def measures(level: int, means: Means) -> Measures:
    return Measures(
        quantile=STRICT_QUANTILE if level >= 1 else NORMAL_QUANTILE,
        drafts=level < 1,
        prefetch=level < 1,
        demotes=level >= 2 and means.tiers,
        swaps=level >= 2 and means.tiers,
        prefill_divisor=SLOWER_PREFILL if level >= 3 else 1,
        few_enter=level >= 3,
        preempts_ahead=level >= 4,
        caps_length=level >= 5,
        lossy=level >= LOSSY_LEVEL and means.lossy,
        refuses=level >= 7,
    )


def length_cap(usable_pages: int, page_size: int) -> int:
    """Tokens of the longest request that is taken at level 5: prompt and output together."""
    return max(1, usable_pages // CAP_SHARE) * page_size


def sentence(level: int, signs: Signs, means: Means) -> str:
    """What the level does, and the arithmetic that it comes from; at level 0 the arithmetic alone."""
    growth = max(0, signs.peak - signs.referenced)
    needs = f"{signs.referenced} blocks used + {growth} forecast + {signs.waiting} awaited"
    arithmetic = f"{needs} = {signs.pressure:.2f} of {signs.usable} usable"
    if signs.runs_out:
        arithmetic += f", {signs.next} needed next and {signs.soon} within 1 s of {signs.free} free"
    return f"level {level}, {_does(level, means)}: {arithmetic}" if level else f"level 0: {arithmetic}"


def _does(level: int, means: Means) -> str:
    if level == 2 and not means.tiers:
        return "there are no tiers to write pages to"
    return STEPS[level - 1].does


def _called_for(signs: Signs, means: Means, share: float) -> int:
    """The level whose threshold, multiplied by `share`, is reached. What is lossy is passed over where it is not allowed."""
    level = sum(signs.pressure >= share * step.pressure for step in STEPS)
    if signs.runs_out:
        level = max(level, SHORTAGE_LEVEL)
    return level - 1 if passed_over(level, means) else level


def passed_over(level: int, means: Means) -> bool:
    """What is lossy, where it is not allowed."""
    return level == LOSSY_LEVEL and not means.lossy
