"""What may not be used again while a step in flight reads or writes it: pages and slots that were given back meanwhile.

A step is in flight from its plan to its collection. What is given back then is held here until the newest step in flight is
collected, whichever of them needs it: that is at most `depth` steps later. With nothing in flight it returns at once.
"""

import collections
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Fence(Generic[T]):
    """`give_back` is called with each thing when no step needs it any more, in the order in which they came."""

    def __init__(self, give_back: Callable[[T], None]) -> None:
        self._give_back = give_back
        self._planned = self._collected = 0
        self._held: collections.deque[tuple[int, T]] = collections.deque()  # with the step to wait for, oldest first

    def __iter__(self) -> Iterator[T]:
        """What is held."""
        return (thing for _, thing in self._held)

    def planned(self, step: int) -> None:
        self._planned = step

    def collected(self, step: int) -> None:
        """All that waited for `step` returns."""
        self._collected = step
        while self._held and self._held[0][0] <= step:
            self._give_back(self._held.popleft()[1])

    def give(self, thing: T) -> None:
        if self._planned <= self._collected:
            self._give_back(thing)
        else:
            self._held.append((self._planned, thing))
