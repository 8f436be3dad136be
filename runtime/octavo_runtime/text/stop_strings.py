"""Ends a text at the first of its stop strings, holding back only what may still become one.

The match that completes earliest wins; of those that complete at the same character, the first of the list.
"""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Found:
    """`text` may be given now; `stop` is the string that ended it."""

    text: str
    stop: str | None = None


class StopStrings:
    """One sequence's search. After a match nothing may be fed any more."""

    def __init__(self, stops: Sequence[str], keep_stop: bool = False) -> None:
        """`keep_stop` leaves the stop string at the end of the text."""
        self._stops = tuple(stops)
        self._keep_stop = keep_stop
        self._held = ""

    def feed(self, text: str) -> Found:
        if not self._stops:
            return Found(text)
        self._held += text
        match = self._earliest()
        if match is not None:
            begin, stop = match
            given = self._held[: begin + len(stop)] if self._keep_stop else self._held[:begin]
            self._held = ""
            return Found(given, stop)
        return Found(self._release(len(self._held) - self._open_suffix()))

    def finish(self) -> str:
        """What was held back, once no more text comes."""
        return self._release(len(self._held))

    def _release(self, count: int) -> str:
        given, self._held = self._held[:count], self._held[count:]
        return given

    def _earliest(self) -> tuple[int, str] | None:
        found = [(self._held.find(stop), stop) for stop in self._stops]
        return min(
            ((begin, stop) for begin, stop in found if begin >= 0),
            key=lambda match: match[0] + len(match[1]),
            default=None,
        )

    def _open_suffix(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        longest = min(len(self._held), max(len(stop) for stop in self._stops) - 1)
        for length in range(longest, 0, -1):
            suffix = self._held[-length:]
            if any(stop.startswith(suffix) for stop in self._stops):
                return length
        return 0
