"""Which requests have run out of time. A request that ended before its deadline is skipped when its turn comes."""

import heapq
import math

from octavo_runtime.engine.request import Request

_TIDIED_AT_LEAST = 64  # finished requests do not matter before there are so many


class Deadlines:
    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Request]] = []
        self._tidied_at = _TIDIED_AT_LEAST

    def __len__(self) -> int:
        """Requests that are remembered: about twice as many as are alive, at most."""
        return len(self._heap)

    def add(self, request: Request) -> None:
        if request.deadline_s == math.inf:
            return
        if len(self._heap) >= self._tidied_at:
            self._forget_finished()
        heapq.heappush(self._heap, (request.deadline_s, request.arrival, request))

    @property
    def next_s(self) -> float:
        """The earliest deadline, infinite without any."""
        return self._heap[0][0] if self._heap else math.inf

    def take_overdue(self, now_s: float) -> list[Request]:
        """Those that are not finished and whose deadline has come."""
        overdue = []
        while self._heap and self._heap[0][0] <= now_s:
            request = heapq.heappop(self._heap)[2]
            if request.sequences:
                overdue.append(request)
        return overdue

    def _forget_finished(self) -> None:
        """A far deadline would keep the prompt of a request that ended long before."""
        self._heap = [entry for entry in self._heap if entry[2].sequences]
        heapq.heapify(self._heap)
        self._tidied_at = max(_TIDIED_AT_LEAST, 2 * len(self._heap))
