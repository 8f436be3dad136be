"""Which kinds this operator may not watch, by the API server's authorizer: asked about all at the start, later about the refused.

Without an optional kind the operator goes on, as if the API server did not serve it; without another one it cannot work and ends.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from octavo_operator import kinds
from octavo_operator.kinds import Kind
from octavo_operator.kube import Kube

logger = logging.getLogger(__name__)

VERBS = ("list", "watch")
# An API server that has just started refuses everything until it has read all roles.
PATIENCE_S = 10.0
ASK_AGAIN_S = 1.0


class RightsError(Exception):
    """The operator may not watch what it cannot do without; the text names the right and the remedy."""


class Rights:
    """`namespaces` empty: the whole cluster. `denied`: the optional kinds that must not be watched, as of the newest `learn`."""

    def __init__(self, api: Kube, namespaces: Sequence[str]) -> None:
        self._api = api
        self._places = tuple(namespaces) or (None,)
        self.denied: frozenset[Kind] = frozenset()

    async def learn(self, doubted: Iterable[Kind]) -> None:
        """Asks about `doubted` and what was denied before, and says what is new.

        Raises RightsError, and kube.KubeError where the API server cannot be asked.
        """
        doubted = frozenset(doubted)
        await self._check_essential(kind for kind in doubted if kind in kinds.ESSENTIAL)
        lacking = {kind: await self._lacking(kind) for kind in self.denied | doubted if kind not in kinds.ESSENTIAL}
        denied = frozenset(kind for kind, lacks in lacking.items() if lacks)
        for kind in sorted(denied - self.denied, key=lambda kind: kind.full_name):
            logger.warning("%s; services go on without what it is for", _told(kind, lacking[kind]))
        for kind in self.denied - denied:
            logger.info("%s may be watched now", kind.full_name)
        self.denied = denied

    async def _check_essential(self, doubted: Iterable[Kind]) -> None:
        asked = list(doubted)
        deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
        while lacking := {kind: lacks for kind in asked if (lacks := await self._lacking(kind))}:
            if asyncio.get_running_loop().time() > deadline_s:
                raise RightsError("; ".join(_told(kind, lacks) for kind, lacks in lacking.items()))
            await asyncio.sleep(ASK_AGAIN_S)

    async def _lacking(self, kind: Kind) -> list[str]:
        """The verbs that it lacks, each with where."""
        wanted = [(verb, place) for place in self._places for verb in VERBS]
        answers = await asyncio.gather(*(self._api.may(verb, kind, place) for verb, place in wanted))
        return [
            f"{verb} in {f'namespace {place}' if place else 'the whole cluster'}"
            for (verb, place), may in zip(wanted, answers, strict=True)
            if not may
        ]


def _told(kind: Kind, lacks: Sequence[str]) -> str:
    return (
        f"the operator's role lacks {' and '.join(lacks)} of {kind.full_name}: grant it, as the chart does, "
        "or upgrade the chart together with the operator's image"
    )
