"""What a preempted sequence left in the tiers, and finds there when it enters again.

Full pages of a whole history have names: they are found like anybody's. What has none is put under a key when the sequence is
preempted: the page at the end of its table; or the whole table of a sequence with a budget, whose pages depend on what it evicted.
"""

import dataclasses
import os


@dataclasses.dataclass(frozen=True)
class Swapped:
    """`keys`: of the last page of `computed` tokens; or, with `whole`, of all pages in order, with the weight of each."""

    keys: list[bytes]
    computed: int
    whole: bool = False
    evicted: int = 0
    evicted_before: int = 0  # of the sequence, without what this preemption cost
    weights: list[float] = dataclasses.field(default_factory=list)


def private_keys(count: int) -> list[bytes]:
    """Keys that nobody else has, now or in another run."""
    return [os.urandom(32) for _ in range(count)]
