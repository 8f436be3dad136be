"""Which optional kinds are watched: those that the API server serves and this operator may watch. Both may change at any time."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Set

from octavo_operator import kinds, kube, rights, watches
from octavo_operator.kinds import Kind

ASK_AGAIN_S = 2.0


class Discovery:
    """`serve` is told the kinds to watch from now on. What `watched` doubts is looked at again."""

    def __init__(
        self,
        api: kube.Kube,
        granted: rights.Rights,
        watched: watches.Watches,
        serve: Callable[[Set[Kind]], Awaitable[None]],
    ) -> None:
        self._api = api
        self._rights = granted
        self._watched = watched
        self._serve = serve
        self._asked: frozenset[Kind] = frozenset()

    async def once(self) -> None:
        """However long the API server takes to answer. Raises RightsError where the operator cannot work."""
        refused = self._watched.take_refused()
        while True:
            with contextlib.suppress(kube.KubeError):
                await self._api.learn_version()
                served = await self._api.served(kinds.OPTIONAL)
                wanted = served.union(kinds.ESSENTIAL)
                await self._rights.learn(wanted - self._asked | refused & wanted)
                self._asked = wanted
                return await self._serve(served - self._rights.denied)
            await asyncio.sleep(ASK_AGAIN_S)

    async def run(self, interval_s: float, ended: asyncio.Event) -> None:
        """Every so often, and at once where there is a doubt. Raises RightsError, with `ended` set."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await self._watched.doubt.wait()
            self._watched.doubt.clear()
            try:
                await self.once()
            except rights.RightsError:
                ended.set()
                raise
