"""Which requests have run out of time. A request that ended before its deadline is skipped when its turn comes."""

import heapq
import math

from octavo_runtime.engine.request import Request


class Deadlines:
    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Request]] = []

    def add(self, request: Request) -> None:
        if request.deadline_s < math.inf:
            heapq.heappush(self._heap, (request.deadline_s, request.arrival, request))

    def take_overdue(self, now_s: float) -> list[Request]:
        """Those that are not finished and whose deadline has come."""
        overdue = []
        while self._heap and self._heap[0][0] <= now_s:
            request = heapq.heappop(self._heap)[2]
            if request.sequences:
                overdue.append(request)
        return overdue
