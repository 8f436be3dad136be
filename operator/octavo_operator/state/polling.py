"""Asks every pod that runs for its `/state`: each 10 s, before it is ready each 2 s. Only the operator that leads does.

A pod that does not answer, or not in time, or with something else, is told as silent; what that means is `Readings`' to judge.
"""

import asyncio
import dataclasses
import itertools
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping

import aiohttp
from yarl import URL

from octavo_operator import names
from octavo_operator.observed import PodView
from octavo_operator.service import Key
from octavo_operator.state.answer import AnswerError, PodState, parse
from octavo_operator.state.readings import Readings

logger = logging.getLogger(__name__)

AT_ONCE = 64
LIMIT_BYTES = 64 * 1024
_JITTER = 0.1


@dataclasses.dataclass(frozen=True)
class Pace:
    """How often a pod is asked, before and after it is ready; how long it may take; how often is looked who is due."""

    starting_s: float = 2.0
    ready_s: float = 10.0
    timeout_s: float = 2.0
    tick_s: float = 0.5


PACE = Pace()


def askable(pods: Iterable[PodView]) -> list[PodView]:
    return [pod for pod in pods if pod.running and pod.serving and pod.ip and not pod.ending]


class Polling:
    """`pods` gives all pods as they are watched; `changed` is told of services whose status may have to say something else."""

    def __init__(
        self,
        pods: Callable[[], Mapping[Key, Iterable[PodView]]],
        readings: Readings,
        changed: Callable[[Key], None],
        port: int = names.HEALTH_PORT,
        pace: Pace = PACE,
    ) -> None:
        self._pods = pods
        self._readings = readings
        self._changed = changed
        self._port = port
        self._pace = pace
        self._due_s: dict[str, float] = {}  # by uid; infinite while asked

    async def run(self) -> None:
        """Asks until cancelled."""
        # Neither proxies nor redirects nor cookies: pods are asked, and nobody else on their behalf.
        connector = aiohttp.TCPConnector(limit=AT_ONCE, force_close=True)
        timeout = aiohttp.ClientTimeout(total=self._pace.timeout_s)
        async with (
            aiohttp.ClientSession(
                connector=connector, timeout=timeout, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as session,
            asyncio.TaskGroup() as asking,
        ):
            free = asyncio.Semaphore(AT_ONCE)
            while True:
                for key, pod in self._look():
                    asking.create_task(self._ask(session, free, key, pod))
                for key in self._readings.due():
                    self._changed(key)
                await asyncio.sleep(self._pace.tick_s)

    def _look(self) -> list[tuple[Key, PodView]]:
        """The pods that are to be asked now; what was known of others that went is forgotten."""
        alive = {key: pods for key, found in self._pods().items() if (pods := askable(found))}
        uids = {key: {pod.uid for pod in pods} for key, pods in alive.items()}
        self._readings.keep_only(uids)
        known = set(itertools.chain.from_iterable(uids.values()))
        self._due_s = {uid: due_s for uid, due_s in self._due_s.items() if uid in known}
        now_s = time.monotonic()
        due = [(key, pod) for key, pods in alive.items() for pod in pods if self._due_s.get(pod.uid, 0.0) <= now_s]
        for _, pod in due:
            self._due_s[pod.uid] = float("inf")
        return due

    async def _ask(self, session: aiohttp.ClientSession, free: asyncio.Semaphore, key: Key, pod: PodView) -> None:
        async with free:
            state = await self._state(session, pod)
        if pod.uid not in self._due_s:
            return  # gone meanwhile
        self._readings.told(key, pod.uid, state)
        pause_s = self._pace.ready_s if pod.ready else self._pace.starting_s
        self._due_s[pod.uid] = time.monotonic() + pause_s * random.uniform(1 - _JITTER, 1 + _JITTER)

    async def _state(self, session: aiohttp.ClientSession, pod: PodView) -> PodState | None:
        try:
            url = URL.build(scheme="http", host=pod.ip, port=self._port, path="/state")
            async with session.get(url, allow_redirects=False) as response:
                if response.status != 200:
                    raise AnswerError(f"status {response.status}")
                return parse(await _body(response))
        except (aiohttp.ClientError, AnswerError, OSError, TimeoutError, ValueError) as error:
            logger.debug("%s at %s: %s %s", pod.name, pod.ip, type(error).__name__, error)
            return None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_chunked(8192):
        body += piece
        if len(body) > LIMIT_BYTES:
            raise AnswerError(f"more than {LIMIT_BYTES} bytes")
    return bytes(body)
