"""What only the one operator does that leads: when that begins, and that it ends at once where the lease is lost."""

import asyncio
import contextlib
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable, Sequence

from octavo_operator import kube, lease

logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


class Leadership:
    """`elector` is None where this process is the only operator and leads from the beginning to the end.

    `ended` is set where it no longer may lead; the process has to end then, since what it knows of who writes is over.
    """

    def __init__(self, elector: lease.Elector | None) -> None:
        self._elector = elector
        self._elected = asyncio.Event()
        self.ended = asyncio.Event()

    def leads(self) -> bool:
        """Whether this process may write now."""
        return self._elected.is_set() and (self._elector is None or self._elector.leads())

    async def once_elected(self, work: Work) -> None:
        await self._elected.wait()
        await work()

    async def run(self, led: Sequence[asyncio.Task[None]]) -> None:
        """Lets the tasks of `once_elected` go on while this process leads; raises LostError, with them cancelled, where it ends."""
        try:
            if self._elector is not None:
                await self._elector.campaign()
            self._elected.set()
            await (self._elector.hold() if self._elector is not None else asyncio.Event().wait())
        except lease.LostError:
            # Their writes are another's business now, also those that are under way.
            for task in led:
                task.cancel()
            raise
        finally:
            self.ended.set()

    async def release(self) -> None:
        """Lets another operator take over at once; that it may not arrive costs it the lease's duration, no more."""
        if self._elector is not None:
            with contextlib.suppress(kube.KubeError, TimeoutError):
                async with asyncio.timeout(lease.TIMEOUT_S):
                    await self._elector.release()


def identity() -> str:
    """A name for this process that no other has: a pod's name, and what tells a restarted container from the one before."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
