"""The arithmetic of the figures: pure functions of counts and times."""

import bisect
import itertools
import math
from collections.abc import Sequence

from bench.seeds.trace import Step, Trace
from octavo_runtime.messages import Stats

# For each pair of query and key in one pass: a mask of bytes, its copy and one of fp32, and room to spare.
_MASK_BYTES = 8


def contiguous_sessions(memory_bytes: int, session_bytes: int) -> int:
    """Sessions that fit when each takes the memory of its longest possible context from the start."""
    return memory_bytes // session_bytes


def shared_pages(prefix_tokens: int, tail_tokens: Sequence[int], page_size: int) -> int:
    """Pages of one prefix and every tail: the whole pages of the prefix once, its rest with each tail."""
    rest = prefix_tokens % page_size
    return prefix_tokens // page_size + sum(-(-(rest + tail) // page_size) for tail in tail_tokens)


def worst_sharing(trace: Trace, prefix_tokens: int, tail_tokens: Sequence[int], page_size: int) -> tuple[int, int]:
    """Pages used and needed at the step where their ratio is greatest, of the steps in which all that is live decodes.

    Requests are named by their index in `tail_tokens`, which counts each prompt's tokens beyond the prefix.
    """
    pairs = []
    for step in trace.steps:
        tails = held_tails(trace, tail_tokens, step.at_s)
        if tails and len(tails) == step.stats.running and not step.stats.waiting:
            pairs.append((step.stats.blocks_used, shared_pages(prefix_tokens, tails, page_size)))
    return max(pairs, key=lambda pair: pair[0] / pair[1])


def held_tails(trace: Trace, tail_tokens: Sequence[int], at_s: float) -> list[int]:
    """Tokens beyond the prefix that the live requests' pages hold after a step: all but the newest, which is not computed yet."""
    held = []
    for index, tail in enumerate(tail_tokens):
        answer = trace.answers[str(index)]
        generated = bisect.bisect_right(answer.token_s, at_s)
        if generated and at_s < answer.finished_s:
            held.append(tail + generated - 1)
    return held


def padded_outputs(output_tokens: Sequence[int], batch: int) -> list[int]:
    """What a static batch computes for each row: as much as for the longest of its batch."""
    batches = [output_tokens[first : first + batch] for first in range(0, len(output_tokens), batch)]
    return [max(each) for each in batches for _ in each]


def computed_products(tokens: int, chunk: int) -> int:
    """Pairs of query and key of a prompt in chunks where a chunk sees all keys up to its end, masked ones too."""
    return sum(min(chunk, tokens - first) * min(first + chunk, tokens) for first in range(0, tokens, chunk))


def bearable_prompt(available_bytes: int, wanted_tokens: int) -> int:
    """The longest prompt for one pass: what is wanted, halved while its masks would not fit the memory."""
    while wanted_tokens > 1024 and _MASK_BYTES * wanted_tokens**2 > available_bytes:
        wanted_tokens //= 2
    return wanted_tokens


def wasted_share(steps: Sequence[Stats], page_size: int) -> float:
    """Slots of referenced pages that hold no token, as a share, averaged over steps."""
    shares = [1 - stats.slots_filled / (stats.blocks_used * page_size) for stats in steps if stats.blocks_used]
    return mean(shares)


def mean(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("no values to average: the load was too small for work to wait")
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
