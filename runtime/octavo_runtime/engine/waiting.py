"""The sequences that wait for their turn, in order of rank, and how fast the queue drains."""

import bisect
import collections
import itertools
import math
from collections.abc import Iterator

from octavo_runtime.engine.request import Sequence, rank

DRAIN_WINDOW_S = 30.0
RETRY_AFTER_MOST_S = 600
_FEW, _FEW_INTERVAL_S = 5, 5.0  # so few tell little of how fast they follow each other: not faster than this


class WaitingQueue:
    """By priority, then arrival; a preempted sequence keeps its rank."""

    def __init__(self) -> None:
        self._sequences: list[Sequence] = []
        self._expected: dict[Sequence, int] = {}  # as it was when they came: the forecast may change before they leave
        self.prompt_tokens = 0  # of all who wait: n times for a request of n sequences
        self.expected_tokens = 0  # the same with their expected output: what they would hold

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences)

    def first(self, count: int) -> list[Sequence]:
        """The first `count` that have something to compute: not the beams that wait for their siblings."""
        return list(itertools.islice((one for one in self._sequences if not one.offered), count))

    def add(self, sequence: Sequence) -> None:
        request = sequence.request
        expected = request.prompt_length + request.forecast_output
        if request.kv_budget is not None:
            expected = min(expected, request.kv_budget.tokens)
        self._expected[sequence] = sequence.choices * expected
        bisect.insort(self._sequences, sequence, key=rank)
        self.prompt_tokens += sequence.choices * request.prompt_length
        self.expected_tokens += self._expected[sequence]

    def remove(self, sequence: Sequence) -> None:
        del self._sequences[bisect.bisect_left(self._sequences, sequence.rank, key=rank)]
        self.prompt_tokens -= sequence.choices * sequence.request.prompt_length
        self.expected_tokens -= self._expected.pop(sequence)


class DrainRate:
    """How many requests a second have left the queue for a place in the batch, over the last half minute."""

    def __init__(self) -> None:
        self._left_s: collections.deque[float] = collections.deque()

    def left(self, now_s: float) -> None:
        self._left_s.append(now_s)
        self._forget(now_s)

    def retry_after_s(self, queued: int, now_s: float) -> int:
        """When half of a full queue will be worked off, so that who comes back finds a place and the engine still has work.

        Without any that left lately: the whole window.
        """
        self._forget(now_s)
        if not self._left_s:
            return math.ceil(DRAIN_WINDOW_S)
        interval_s = max(1.0, now_s - self._left_s[0]) / len(self._left_s)
        interval_s = max(interval_s, now_s - self._left_s[-1], _FEW_INTERVAL_S if len(self._left_s) < _FEW else 0.0)
        return max(1, min(RETRY_AFTER_MOST_S, math.ceil(queued / 2 * interval_s)))

    def _forget(self, now_s: float) -> None:
        while self._left_s and self._left_s[0] < now_s - DRAIN_WINDOW_S:
            self._left_s.popleft()
