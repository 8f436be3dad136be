"""Which of several operators works: one holds a Lease of the API server and renews it; the others wait until it is not renewed.

What the Lease says is decided by pure functions; `Elector` reads and writes it. Nobody's wall clock counts: a holder is given up
once *this* process has seen no renewal for the lease's duration by its own monotonic clock, so skewed clocks do no harm. The
holder stops 3 s before anybody may take over, whatever keeps it from renewing: `Elector.leads` turns false by itself.
"""

import asyncio
import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from octavo_operator import kube, moments
from octavo_operator.kinds import LEASE
from octavo_operator.service import Key

logger = logging.getLogger(__name__)

LEASE_S = 10
RENEW_DEADLINE_S = 7.0
RETRY_S = 2.0
# Of one that woke a moment too early.
SHORTEST_RETRY_S = 0.1
TIMEOUT_S = 3.0

Spec = Mapping[str, Any]


class LostError(Exception):
    """The lease was not renewed in time, or another process holds it: this one may write nothing any more."""


@dataclasses.dataclass(frozen=True)
class Sighting:
    """What a Lease's holder wrote last, for how long it counts, and when this process first saw it, by its own clock."""

    record: tuple[Any, ...]
    since_s: float
    duration_s: float


def sighting(before: Sighting | None, spec: Spec, now_s: float) -> Sighting:
    # Not the resource's version: whoever labels a Lease does not renew it.
    record = tuple(spec.get(field) for field in ("holderIdentity", "renewTime", "leaseTransitions"))
    if before is not None and before.record == record:
        return before
    return Sighting(record, now_s, spec.get("leaseDurationSeconds", LEASE_S))


def may_claim(spec: Spec, identity: str, seen: Sighting, now_s: float) -> bool:
    """Whether `identity` may write itself into a Lease: it stands there, nobody does, or who does was silent for too long."""
    if spec.get("holderIdentity", "") in ("", identity):
        return True
    return now_s - seen.since_s >= seen.duration_s


def patience_s(seen: Sighting, now_s: float) -> float:
    """Seconds until who waits for `seen` looks again."""
    left_s = seen.since_s + seen.duration_s - now_s
    return min(RETRY_S, max(left_s, SHORTEST_RETRY_S))


def claimed(spec: Spec, identity: str, now: str) -> dict[str, Any]:
    """The spec of a Lease that `identity` takes or renews at `now`, RFC 3339 with microseconds, which people read."""
    held = {"holderIdentity": identity, "leaseDurationSeconds": LEASE_S, "renewTime": now}
    if spec.get("holderIdentity") == identity:
        return {**spec, **held}
    return {**held, "acquireTime": now, "leaseTransitions": spec.get("leaseTransitions", -1) + 1}


def released(spec: Spec, now: str) -> dict[str, Any]:
    """The spec of a Lease that its holder gives up: whoever looks next may take it."""
    return {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now}


class Elector:
    """Takes, renews and gives back one Lease as `identity`, which no other process may have."""

    def __init__(self, api: kube.Kube, key: Key, identity: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._key = key
        self._identity = identity
        self._clock = clock
        self._seen: Sighting | None = None
        self._live: dict[str, Any] | None = None  # as this process wrote it last
        self._renewed_s = -math.inf

    def leads(self) -> bool:
        """Whether this process may write now."""
        return self._clock() - self._renewed_s < RENEW_DEADLINE_S

    async def campaign(self) -> None:
        """Returns once this process holds the lease."""
        logger.info("waiting for the lease %s as %s", self._key, self._identity)
        held = await self._tried()
        while not held:
            await asyncio.sleep(self._patience_s())
            held = await self._tried()
        logger.info("holding the lease %s", self._key)

    async def hold(self) -> None:
        """Renews the lease that this process holds, for ever. Raises LostError, at the deadline and no later."""
        while self.leads():
            left_s = self._renewed_s + RENEW_DEADLINE_S - self._clock()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await asyncio.sleep(RETRY_S)
                    await self._tried()
        raise LostError(f"the lease {self._key} was not renewed within {RENEW_DEADLINE_S:.0f} s, or is another's")

    async def release(self) -> None:
        """Lets another process take over at once; does nothing where this one does not hold the lease. Raises KubeError."""
        if self._live is None or not self.leads():
            return
        self._renewed_s = -math.inf
        await self._write(self._live, released(self._live["spec"], moments.micro_time()))

    async def _tried(self) -> bool:
        """One attempt to take or renew the lease. That the API server cannot be asked is a failed attempt, no more."""
        try:
            return await self._attempt()
        except (kube.KubeError, TimeoutError) as error:
            logger.warning("the lease %s: %s", self._key, str(error) or f"no answer within {TIMEOUT_S:.0f} s")
            self._live = None  # what was written may or may not have arrived
            return False

    def _patience_s(self) -> float:
        """Until the next attempt: not past the moment from which a silent holder may be given up."""
        return RETRY_S if self._seen is None else patience_s(self._seen, self._clock())

    async def _attempt(self) -> bool:
        live = self._live or await self._read()
        spec = live.get("spec", {}) if live is not None else {}
        self._seen = sighting(self._seen, spec, self._clock())
        if not may_claim(spec, self._identity, self._seen, self._clock()):
            if self.leads():
                self._renewed_s = -math.inf
                logger.warning("the lease %s was taken by %s", self._key, spec["holderIdentity"])
            return False
        # From before the request on, since the API server may have written it at once and answered late.
        began_s = self._clock()
        self._live = await self._write(live, claimed(spec, self._identity, moments.micro_time()))
        self._renewed_s = began_s
        return True

    async def _read(self) -> dict[str, Any] | None:
        async with asyncio.timeout(TIMEOUT_S):
            return await self._api.get(LEASE, self._key)

    async def _write(self, live: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "spec": spec}
        async with asyncio.timeout(TIMEOUT_S):
            if live is None:
                metadata = {"name": self._key.name, "namespace": self._key.namespace}
                return await self._api.create(LEASE, {**body, "metadata": metadata})
            return await self._api.replace(LEASE, {**body, "metadata": live["metadata"]})
