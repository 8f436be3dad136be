"""Whether the process is alive and ready, as one pure function of what is known without asking a busy engine."""

import dataclasses

from octavo_runtime.heartbeat import Phase, Pulse
from octavo_runtime.server.drain import DrainPhase

API_STALL_S = 30.0  # an event loop silent for longer is hung


@dataclasses.dataclass(frozen=True)
class Signs:
    """What the verdict is made from. Times are monotonic."""

    pulse: Pulse
    now_s: float
    api_tick_at_s: float
    engine_up: bool  # the engine process runs and has told what it came up with
    listening: bool  # the API's port is open
    drain: DrainPhase


@dataclasses.dataclass(frozen=True)
class Health:
    phase: Phase
    percent: int
    reason: str
    live: bool
    ready: bool


def health(signs: Signs) -> Health:
    """`live` is false only when something hangs; `ready` when new requests would be answered."""
    hung = _hung_reason(signs)
    if hung is not None:
        return Health("hung", signs.pulse.percent, hung, live=False, ready=False)
    pulse = signs.pulse
    up = signs.engine_up and signs.listening and pulse.phase in ("ready", "pressured")
    if signs.drain == "settling":
        return Health("draining", pulse.percent, "still answering while endpoints settle", live=True, ready=up)
    if signs.drain == "refusing":
        return Health("draining", pulse.percent, "new requests are refused", live=True, ready=False)
    if up:
        return Health(pulse.phase, pulse.percent, pulse.reason, live=True, ready=True)
    return Health(_phase_before_ready(pulse), pulse.percent, _waiting_reason(signs), live=True, ready=False)


def _hung_reason(signs: Signs) -> str | None:
    api_age_s = signs.now_s - signs.api_tick_at_s
    if api_age_s > API_STALL_S:
        return f"the API's event loop has not moved for {api_age_s:.0f} s"
    return engine_hung_reason(signs.pulse, signs.now_s)


def engine_hung_reason(pulse: Pulse, now_s: float) -> str | None:
    """None for an engine that gave a sign of life not too long ago."""
    stalled_s = pulse.stalled_s(now_s)
    if stalled_s is None:
        return None
    if pulse.phase in ("loading", "warming"):
        return f"no progress in {pulse.phase} for {stalled_s:.0f} s (at {pulse.percent} %)"
    return f"the engine's loop has not moved for {stalled_s:.0f} s (step {pulse.step})"


def _phase_before_ready(pulse: Pulse) -> Phase:
    """An engine that says ready while the API is not connected to it yet is still warming for the outside."""
    return "warming" if pulse.phase in ("ready", "pressured") else pulse.phase


def _waiting_reason(signs: Signs) -> str:
    pulse = signs.pulse
    if pulse.phase not in ("ready", "pressured"):
        return f"{pulse.percent} %, {pulse.reason}" if pulse.reason else f"{pulse.percent} %"
    return "the API waits for the engine's answer" if signs.listening else "the API's port is not open yet"


def last_step_age_s(pulse: Pulse, now_s: float) -> float | None:
    """Age of the engine loop's last sign of life; None before the first."""
    return round(now_s - pulse.tick_at_s, 3) if pulse.tick_at_s else None
