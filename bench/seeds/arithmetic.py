"""The arithmetic of the figures: pure functions of counts and times."""

import itertools
import math
from collections.abc import Sequence

from bench.seeds.trace import Step
from octavo_runtime.messages import Stats


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed (nearest rank)."""
    if not values:
        raise ValueError("no values: a percentile needs at least one")
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def contiguous_sessions(memory_bytes: int, session_bytes: int) -> int:
    """Sessions that fit when each takes the memory of its longest possible context from the start."""
    return memory_bytes // session_bytes


def shared_pages(prefix_tokens: int, tail_tokens: Sequence[int], page_size: int) -> int:
    """Pages of one prefix and every tail: the whole pages of the prefix once, its rest with each tail."""
    rest = prefix_tokens % page_size
    return prefix_tokens // page_size + sum(-(-(rest + tail) // page_size) for tail in tail_tokens)


def static_steps(output_tokens: Sequence[int], batch: int) -> int:
    """Steps of static batches in order: each lasts as long as its longest output."""
    return sum(max(output_tokens[first : first + batch]) for first in range(0, len(output_tokens), batch))


def wasted_share(steps: Sequence[Stats], page_size: int) -> float:
    """Slots of referenced pages that hold no token, as a share, averaged over steps."""
    shares = [1 - stats.slots_filled / (stats.blocks_used * page_size) for stats in steps if stats.blocks_used]
    return math.fsum(shares) / len(shares)


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def busy_share(steps: Sequence[Step]) -> float:
    """Time with a step in flight over the wall clock, between steps that leave work waiting and the ones after them."""
    busy_s = wall_s = 0.0
    for before, after in itertools.pairwise(steps):
        if before.stats.waiting > 0:
            busy_s += after.stats.busy_s_total - before.stats.busy_s_total
            wall_s += after.at_s - before.at_s
    if wall_s == 0.0:
        raise ValueError("no work ever waited: the load is too small to say how busy the engine was")
    return busy_s / wall_s


def longest_gap_s(token_s: Sequence[float], begin_s: float, end_s: float) -> float:
    """The longest time between two tokens of a stream, of the gaps that touch `begin_s` … `end_s`."""
    gaps = [after - before for before, after in itertools.pairwise(token_s) if after > begin_s and before < end_s]
    if not gaps:
        raise ValueError("the stream had no two tokens around that time: give it more to say")
    return max(gaps)
