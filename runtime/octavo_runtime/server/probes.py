"""`/live`, `/ready`, `/health`, `/state` and `/metrics`: answered from shared memory and the newest counts, on either port.

Nothing here waits for the event loop or the engine, so the health port's thread can answer while both are busy.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from octavo_runtime.config import LONG_PROMPT_TOKENS, ServeConfig
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.messages import EngineInfo, Stats
from octavo_runtime.server.gauges import Availability, Snapshot
from octavo_runtime.server.health import Health, Signs, engine_hung_reason, health, last_step_age_s
from octavo_runtime.server.service import Service
from octavo_runtime.server.supervisor import Supervisor

PATHS = ("/live", "/ready", "/health", "/state", "/metrics")


@dataclasses.dataclass(frozen=True)
class ProbeAnswer:
    status: int
    content_type: str
    body: bytes


class Loop:
    """What the event loop tells the health thread about itself: single attributes, written by one thread."""

    def __init__(self) -> None:
        self.tick_at_s = time.monotonic()
        self.listening = False
        self.availability = Availability()


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
        if path == "/metrics":
            return ProbeAnswer(200, CONTENT_TYPE_PLAIN_0_0_4, self._service.metrics.exposition())
        if path not in PATHS:
            return None
        state = self.health()
        if path == "/state":
            return ProbeAnswer(200, "application/json", msgspec.json.encode(self._state(state)))
        good = state.live if path == "/live" else state.ready
        text = f"{state.phase}: {state.reason}" if state.reason else state.phase
        return ProbeAnswer(200 if good else 503, "text/plain; charset=utf-8", text.encode() + b"\n")

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

    def _state(self, state: Health) -> dict[str, Any]:
        service, pulse = self._service, self._heartbeat.read()
        info, stats = service.engine.info, service.engine.stats
        return dataclasses.asdict(state) | {
            "last_step_age_s": last_step_age_s(pulse, self._monotonic_s()),
            "step": pulse.step,
            "in_flight": service.drain.in_flight,
            "running": stats.running if stats else 0,
            "waiting": stats.waiting if stats else 0,
            "drain": {"phase": service.drain.phase, "estimate_s": service.pace.estimate_s()},
            "pressure_level": stats.pressure_level if stats else 0,
            "pressure_reason": pulse.reason if pulse.phase == "pressured" else "",
            "engine": {"pid": self._supervisor.pid, "restarts": self._supervisor.restarts},
            "config": effective_config(service.config, info, stats),
        }


def effective_config(config: ServeConfig, info: EngineInfo | None, stats: Stats | None) -> dict[str, Any]:
    """The flags, with what the engine settled for `auto` once it is up and what it lowered since, with the reason. Pure."""
    settled = msgspec.to_builtins(info) if info is not None else {}
    names = {"model": config.model, "served_model_name": config.model_name}
    return dataclasses.asdict(config) | settled | _sequences_now(info, stats) | _tokens_now(info, stats) | names


def _sequences_now(info: EngineInfo | None, stats: Stats | None) -> dict[str, Any]:
    if info is None or stats is None:
        return {"max_num_seqs_reason": ""}
    halved = stats.max_num_seqs < info.max_num_seqs
    reason = f"halved: most prompts are longer than {LONG_PROMPT_TOKENS} tokens" if halved else ""
    return {"max_num_seqs": stats.max_num_seqs, "max_num_seqs_reason": reason}


def _tokens_now(info: EngineInfo | None, stats: Stats | None) -> dict[str, Any]:
    if info is None or stats is None or not 0 < stats.max_num_batched_tokens < info.max_num_batched_tokens:
        return {"max_num_batched_tokens_reason": ""}
    reason = "halved: there was no memory for a larger step"
    return {"max_num_batched_tokens": stats.max_num_batched_tokens, "max_num_batched_tokens_reason": reason}
