"""`/live`, `/ready`, `/health`, `/state` and `/metrics`: answered from shared memory and the newest counts, on either port.

Nothing here waits for the event loop or the engine, so the health port's thread can answer while both are busy.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from octavo_runtime.config import ServeConfig
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.server.gauges import Availability, Snapshot
from octavo_runtime.server.health import Health, Signs, engine_hung_reason, health
from octavo_runtime.server.metrics import Metrics, SnapshotCollector
from octavo_runtime.server.probe_answer import PATHS, ProbeAnswer
from octavo_runtime.server.service import Service
from octavo_runtime.server.state import PressureSince, Serving, state
from octavo_runtime.server.supervisor import Supervisor


class Loop:
    """What the event loop tells the health thread about itself: single attributes, written by one thread."""

    def __init__(self) -> None:
        self.tick_at_s = time.monotonic()
        self.listening = False
        self.availability = Availability()
        self.pressure = PressureSince()


class Probes:
    """Reads; changes nothing."""

    def __init__(
        self,
        service: Service,
        supervisor: Supervisor,
        heartbeat: Heartbeat,
        loop: Loop,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._supervisor = supervisor
        self._heartbeat = heartbeat
        self._loop = loop
        self._monotonic_s = monotonic_s

    def answer(self, path: str) -> ProbeAnswer | None:
        """None for a path that is not one of `PATHS`."""
        return answer(path, self.health, self._state, self._service.metrics)

    def health(self) -> Health:
        signs = Signs(
            pulse=self._heartbeat.read(),
            now_s=self._monotonic_s(),
            api_tick_at_s=self._loop.tick_at_s,
            engine_up=self._service.engine.info is not None,
            listening=self._loop.listening,
            drain=self._service.drain.phase,
        )
        return health(signs)

    def engine_hung_reason(self) -> str | None:
        """Why a request that came now would not be answered; None while the engine moves."""
        return engine_hung_reason(self._heartbeat.read(), self._monotonic_s())

    def snapshot(self) -> Snapshot:
        """What the gauges are computed from."""
        engine = self._service.engine
        return Snapshot(self.health().phase, engine.stats, engine.info, self._loop.availability.volatility())

    def _state(self, now: Health) -> dict[str, Any]:
        service, supervisor = self._service, self._supervisor
        serving = Serving(
            service.engine.info,
            service.engine.stats,
            service.drain.phase,
            service.pace.estimate_s(),
            service.drain.in_flight,
            self._loop.pressure.at_s,
            supervisor.pid,
            supervisor.restarts,
            supervisor.last_end,
        )
        return state(service.config, now, self._heartbeat.read(), serving, self._monotonic_s())


class LoadingProbes:
    """What the health port answers before there is a server: while a hub's model is downloaded."""

    def __init__(self, config: ServeConfig, heartbeat: Heartbeat) -> None:
        self._config = config
        self._heartbeat = heartbeat
        snapshot = SnapshotCollector(config.model_name, lambda: Snapshot(self._health().phase, None, None, None))
        self._metrics = Metrics(config.model_name, snapshot)

    def answer(self, path: str) -> ProbeAnswer | None:
        return answer(path, self._health, self._state, self._metrics)

    def _health(self) -> Health:
        now_s = time.monotonic()
        signs = Signs(self._heartbeat.read(), now_s, now_s, engine_up=False, listening=False, drain="serving")
        return health(signs)

    def _state(self, now: Health) -> dict[str, Any]:
        return state(self._config, now, self._heartbeat.read(), Serving(), time.monotonic())


def answer(
    path: str, look: Callable[[], Health], tell: Callable[[Health], dict[str, Any]], metrics: Metrics
) -> ProbeAnswer | None:
    """None for a path that is not one of `PATHS`."""
    if path == "/metrics":
        return ProbeAnswer(200, CONTENT_TYPE_PLAIN_0_0_4, metrics.exposition())
    if path not in PATHS:
        return None
    now = look()
    if path == "/state":
        return ProbeAnswer(200, "application/json", msgspec.json.encode(tell(now)))
    good = now.live if path == "/live" else now.ready
    text = f"{now.phase}: {now.reason}" if now.reason else now.phase
    return ProbeAnswer(200 if good else 503, "text/plain; charset=utf-8", text.encode() + b"\n")
