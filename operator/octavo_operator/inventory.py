"""What there is in the cluster for pods: nodes, and what all pods hold of them. Read on demand, at most every half minute.

Other people's pods are not watched, which would keep all of a cluster's changes coming: they are listed in pages when a rollout
needs to know, and only their sums are kept.
"""

import asyncio
from collections.abc import Callable

from octavo_operator import kinds, kube
from octavo_operator.capacity import nodes
from octavo_operator.capacity.room import Census, Count

FRESH_S = 30.0


class Inventory:
    """`clock` counts seconds."""

    def __init__(self, api: kube.Kube, clock: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._counting = asyncio.Lock()
        self._counted_at_s: float | None = None
        self._census: Census | None = None

    async def census(self) -> Census | None:
        """None where the operator may not know, as where it was given only some namespaces. Raises UnavailableError."""
        async with self._counting:
            if self._counted_at_s is None or self._clock() - self._counted_at_s >= FRESH_S:
                self._census = await self._count()
                self._counted_at_s = self._clock()
            return self._census

    async def _count(self) -> Census | None:
        count = Count()
        try:
            found = [nodes.node(live) async for live in self._api.listed(kinds.NODE)]
            async for pod in self._api.listed(kinds.POD):
                count.add(pod)
        except kube.DeniedError:
            return None
        return count.census(found)
