"""A thread that moves blocks beside the engine's loop.

Work is given with a function for the thread; what that returns is called by `poll`, in the engine's loop. So all books are kept by
one thread, and need no locks.
"""

import collections
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger("octavo.engine")

Landing = Callable[[], None]
Work = Callable[[], Landing]


class TransferWorker:
    """Urgent work goes first; else in the order in which it was given."""

    def __init__(self, name: str) -> None:
        self._urgent: collections.deque[Work] = collections.deque()
        self._later: collections.deque[Work] = collections.deque()
        self._landed: collections.deque[Landing] = collections.deque()
        self._given = threading.Condition()
        self._closed = False
        self._began_s: float | None = None  # the work that is being done
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def busy_s(self) -> float:
        """How long it has been at what it does now."""
        began_s = self._began_s
        return 0.0 if began_s is None else time.monotonic() - began_s

    def give(self, work: Work, urgent: bool = False) -> None:
        with self._given:
            (self._urgent if urgent else self._later).append(work)
            self._given.notify()

    def poll(self) -> None:
        """Call what finished work returned. Raises what it raised: a fault of ours, as work deals with the failures it expects."""
        while self._landed:
            self._landed.popleft()()

    def close(self) -> None:
        """Do what was given yet, but nothing that hangs for long."""
        with self._given:
            self._closed = True
            self._given.notify()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while (work := self._next()) is not None:
            self._began_s = time.monotonic()
            try:
                self._landed.append(work())
            except Exception as error:  # the thread's outermost frame: `poll` has to know
                log.exception("a transfer failed")
                self._landed.append(_raising(error))
            self._began_s = None

    def _next(self) -> Work | None:
        with self._given:
            while not (self._urgent or self._later or self._closed):
                self._given.wait()
            queue = self._urgent or self._later
            return queue.popleft() if queue else None


def _raising(error: Exception) -> Landing:
    def land() -> None:
        raise error

    return land
