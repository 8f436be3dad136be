"""How much memory the running sequences will need: from how long outputs have been, to the peak of pages over time. Pure.

A sequence is expected to generate as much as nine in ten of those did that came as far as it has; the pool's peak is then reached
just before one of them ends (DESIGN-runtime 5.3; the idea is LightLLM's).
"""

import bisect
import collections
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

QUANTILE = 0.9
SAMPLES_KEPT = 1000
SAMPLES_NEEDED = 100
DEFAULT_REMAINING = 512
USABLE_SHARE = 0.97  # of the pool that a predicted peak may fill


class OutputLengths:
    """The last finished output lengths, in tokens."""

    def __init__(self) -> None:
        self._recent: collections.deque[int] = collections.deque()
        self._sorted: list[int] = []

    def record(self, length: int) -> None:
        if len(self._recent) == SAMPLES_KEPT:
            del self._sorted[bisect.bisect_left(self._sorted, self._recent.popleft())]
        self._recent.append(length)
        bisect.insort(self._sorted, length)

    def remaining(self, generated: int, limit: int, quantile: float = QUANTILE) -> int:
        """Tokens that a sequence is expected to generate yet, at most `limit`: `generated` are there already.

        So many that `quantile` of those that came as far generated no more.
        """
        if len(self._recent) < SAMPLES_NEEDED:
            return min(limit, DEFAULT_REMAINING)
        longer = bisect.bisect_right(self._sorted, generated)
        count = len(self._sorted) - longer
        if count == 0:
            return min(limit, DEFAULT_REMAINING)  # it has outlived all that is known
        return min(limit, self._sorted[longer + math.ceil(quantile * count) - 1] - generated)


class Demand(NamedTuple):
    """One sequence at its peak: its table must hold `length` tokens, has `table_pages` now, of which it alone holds `own_pages`."""

    length: int
    table_pages: int
    own_pages: int
    remaining: int  # tokens that it will grow by
    page_factor: int = 1  # its pages hold so many times the pool's tokens of a page


def peak_pages(shared_pages: int, demands: Sequence[Demand], page_size: int) -> int:
    """The most pages referenced at once when each sequence grows by one token a step and releases its own pages at its end.

    Sorted by what remains, longest first: just before the k-th ends, the first k have grown by its remaining tokens. Shared pages
    count once and to the end.
    """
    if not demands:
        return shared_pages
    table = np.array(sorted(demands, key=_longest_first), dtype=np.int64)
    length, table_pages, own_pages, remaining, factor = table.T
    grown = -(
        -(length + remaining[:, None]) // (page_size * factor)
    )  # [k, i]: pages of sequence i just before the k-th ends
    held = own_pages + np.maximum(grown - table_pages, 0)
    return shared_pages + int(np.tril(held).sum(axis=1).max())


def _longest_first(demand: Demand) -> int:
    return -demand.remaining


def usable_pages(total: int) -> int:
    return max(1, math.floor(USABLE_SHARE * total))
