"""Ending without cutting anyone off: answer for a settle time, then refuse what is new, and wait for what is in flight.

Clients that keep connections open never ask anew where to go. So from the beginning of the settle time each answer tells the client
to leave its connection (`leaving.py`): who comes again comes by a new one, to a replica that stays. No connection is ended untold
before the drain is over, since a request may be on its way: the next one on it is answered, also while new ones are refused.

`octavo drain` (a preStop hook) and SIGTERM begin the same drain; whoever comes second joins the first, so nothing settles twice.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Set
from typing import Literal

from octavo_runtime.server.errors import UnavailableError

DrainPhase = Literal["serving", "settling", "refusing"]
Client = tuple[str, int]  # the address and port from which a connection comes
RETRY_AFTER_S = 1
LINGER_S = 1.0  # in which a client that asks without a pause sends again on the connection of a stream that began before the drain


class Drain:
    """Counts requests in flight and decides whether new ones may enter. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self.phase: DrainPhase = "serving"
        self.in_flight = 0
        self.connected: Callable[[], Set[Client]] = frozenset  # whose connections are open now
        self._untold: Set[Client] = frozenset()
        self._lingers_until_s = 0.0
        self._empty = asyncio.Event()
        self._empty.set()
        self._refusing = asyncio.Event()

    @contextlib.contextmanager
    def request(self, client: Client | None = None) -> Iterator[None]:
        """One request from its first to its last byte. Raises UnavailableError once new ones are refused, but for that on a
        connection which is older than the refusals.
        """
        if self.phase == "refusing" and client not in self._untold:
            raise UnavailableError(
                "this replica is draining: ask again, another one answers", "draining", RETRY_AFTER_S, close=True
            )
        began_before = self.phase == "serving"
        self.in_flight += 1
        self._empty.clear()
        try:
            yield
        finally:
            self.in_flight -= 1
            if began_before:
                self._lingers_until_s = asyncio.get_running_loop().time() + LINGER_S
            if self.in_flight == 0:
                self._empty.set()

    async def run(self, settle_s: float, timeout_s: float) -> bool:
        """Settle (unless a drain has begun already), refuse, wait. Returns whether nothing was in flight at the end."""
        if self.phase == "serving":
            self.phase = "settling"
            asyncio.get_running_loop().call_later(settle_s, self._refuse)
        await self._refusing.wait()
        return await self._wait_empty(timeout_s)

    def _refuse(self) -> None:
        self.phase = "refusing"
        self._untold = self.connected()
        self._refusing.set()

    async def _wait_empty(self, timeout_s: float) -> bool:
        try:
            await asyncio.wait_for(self._until_quiet(), timeout_s)
        except TimeoutError:
            return self.in_flight == 0
        return True

    async def _until_quiet(self) -> None:
        """Nothing is in flight, and nobody has just read the end of an answer that did not tell them to leave."""
        clock = asyncio.get_running_loop().time
        while self.in_flight or clock() < self._lingers_until_s:
            await self._empty.wait()
            await asyncio.sleep(self._lingers_until_s - clock())


class Pace:
    """How fast answers come, to estimate a drain: an average over the last tokens of all requests."""

    def __init__(self) -> None:
        self._seconds_per_token: float | None = None
        self._left: dict[str, int] = {}  # request → tokens it may still generate

    def expect(self, request_id: str, tokens: int) -> None:
        self._left[request_id] = tokens

    def came(self, request_id: str, tokens: int, seconds: float | None) -> None:
        """`tokens` came, `seconds` after the ones before (None: they were the first)."""
        if request_id in self._left:
            self._left[request_id] = max(0, self._left[request_id] - tokens)
        if seconds is not None and tokens:
            sample = seconds / tokens
            mean = self._seconds_per_token
            self._seconds_per_token = sample if mean is None else 0.95 * mean + 0.05 * sample

    def forget(self, request_id: str) -> None:
        self._left.pop(request_id, None)

    def estimate_s(self) -> float | None:
        """Seconds until the longest of the open requests must be done; 0 with none, None while no pace is known."""
        left = list(self._left.values())  # read from the health thread: a copy, for the loop goes on changing it
        if not left:
            return 0.0
        return None if self._seconds_per_token is None else round(max(left) * self._seconds_per_token, 1)
