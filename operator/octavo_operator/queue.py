"""A queue of keys in which each stands at most once.

A key that is added while it is being worked on is worked on once more afterwards, so no change is lost and no two workers have
the same key. Failures come back after a delay that doubles, and what is done may ask for another look later. A key that was worked
on rests for a moment: a change of one object makes events of several, which are then looked at together. The more keys wait, the
longer it rests, since each look would only keep others waiting.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from octavo_operator import backoff

K = TypeVar("K")

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 300.0
# For so many waiting keys a key rests once more as long, and at most so many times.
_REST_STEP = 10
_MOST_RESTS = 20


class KeyQueue(Generic[K]):
    """Single-threaded: all calls come from one event loop."""

    def __init__(
        self, call_later: Callable[[float, Callable[[], None]], object] | None = None, rest_s: float = 0.0
    ) -> None:
        self._waiting: dict[K, None] = {}  # ordered
        self._working: set[K] = set()
        self._resting: set[K] = set()
        self._rest_s = rest_s
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._looks: dict[K, object] = {}  # the newest ask for another look; earlier ones are void
        self._filled = asyncio.Event()
        self._call_later = call_later

    def __len__(self) -> int:
        return len(self._waiting) + len(self._again)

    def add(self, key: K) -> None:
        if key in self._working or key in self._resting:
            self._again.add(key)
        else:
            self._waiting[key] = None
            self._filled.set()

    async def take(self) -> K:
        """The key that waits longest. It counts as worked on until `done` or `failed`."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        key = next(iter(self._waiting))
        del self._waiting[key]
        self._working.add(key)
        return key

    def done(self, key: K, again_s: float | None = None) -> None:
        """The key was worked on well. It comes back after `again_s` seconds, whatever an earlier `done` asked for."""
        self._failures.pop(key, None)
        self._looks.pop(key, None)
        if again_s is not None:
            self._look_again(key, again_s)
        self._release(key)

    def failed(self, key: K) -> float:
        """Brings the key back later. Returns the delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay_s = backoff.delay_s(FIRST_DELAY_S, LONGEST_DELAY_S, failures)
        self._later(delay_s, lambda: self.add(key))
        self._release(key)
        return delay_s

    def _look_again(self, key: K, delay_s: float) -> None:
        ticket = self._looks[key] = object()

        def due() -> None:
            if self._looks.get(key) is ticket:
                del self._looks[key]
                self.add(key)

        self._later(delay_s, due)

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        call_later = self._call_later or asyncio.get_running_loop().call_later
        call_later(delay_s, call)

    def _release(self, key: K) -> None:
        self._working.remove(key)
        if self._rest_s:
            self._resting.add(key)
            rests = min(_MOST_RESTS, 1 + len(self._waiting) // _REST_STEP)
            self._later(self._rest_s * rests, lambda: self._rested(key))
        else:
            self._rested(key)

    def _rested(self, key: K) -> None:
        self._resting.discard(key)
        if key in self._again:
            self._again.remove(key)
            self.add(key)
