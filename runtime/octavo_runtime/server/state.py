"""What `/state` tells, as one pure function of what is known without asking a busy engine. At most a few KiB."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import msgspec

import octavo_runtime
from octavo_runtime.config import LONG_PROMPT_TOKENS, ServeConfig
from octavo_runtime.heartbeat import Pulse
from octavo_runtime.messages import LADDER, EngineInfo, Stats
from octavo_runtime.server.drain import DrainPhase
from octavo_runtime.server.health import Health, last_step_age_s


class PressureSince:
    """When the memory ladder left level 0, on the wall clock; one thread samples, others read."""

    def __init__(self) -> None:
        self.at_s: float | None = None

    def sample(self, level: int, now_s: float) -> None:
        if level == 0:
            self.at_s = None
        elif self.at_s is None:
            self.at_s = now_s


@dataclasses.dataclass(frozen=True)
class Serving:
    """What only a server with an engine process knows; as it is before there is one."""

    info: EngineInfo | None = None
    stats: Stats | None = None
    drain: DrainPhase = "serving"
    drain_estimate_s: float | None = 0.0
    in_flight: int = 0
    pressure_since_s: float | None = None
    engine_pid: int | None = None
    engine_restarts: int = 0
    engine_last_end: str = ""


def state(config: ServeConfig, health: Health, pulse: Pulse, serving: Serving, now_s: float) -> dict[str, Any]:
    """`now_s` is monotonic, as the pulse's times are."""
    stats = serving.stats
    level = stats.pressure_level if stats else 0
    busy = health.phase in ("loading", "warming") and pulse.progress_at_s
    return dataclasses.asdict(health) | {
        "version": octavo_runtime.__version__,
        "model": {"source": config.model, "revision": config.revision},
        "progress_age_s": round(now_s - pulse.progress_at_s, 1) if busy else None,
        "last_step_age_s": last_step_age_s(pulse, now_s),
        "step": pulse.step,
        "in_flight": serving.in_flight,
        "running": stats.running if stats else 0,
        "waiting": stats.waiting if stats else 0,
        "drain": {"phase": serving.drain, "estimate_s": serving.drain_estimate_s},
        "pressure_level": level,
        "pressure_steps": list(LADDER[:level]),
        "pressure_since": _wall_clock(serving.pressure_since_s) if level else None,
        "pressure_reason": pulse.reason if pulse.phase == "pressured" else "",
        "blocks_total": stats.blocks_total if stats else None,
        "blocks_used": stats.blocks_used if stats else None,
        "blocks_cached": stats.blocks_cached if stats else None,
        "predicted_deficit_blocks": stats.predicted_deficit_blocks if stats else None,
        "engine": {
            "pid": serving.engine_pid,
            "restarts": serving.engine_restarts,
            "last_end": serving.engine_last_end,
        },
        "config": effective_config(config, serving.info, stats),
    }


def _wall_clock(at_s: float | None) -> str | None:
    """As Kubernetes writes times."""
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def effective_config(config: ServeConfig, info: EngineInfo | None, stats: Stats | None) -> dict[str, Any]:
    """The flags, with what the engine settled for `auto` once it is up and what it lowered since, with the reason. Pure."""
    settled = msgspec.to_builtins(info) if info is not None else {}
    names = {"model": config.model, "served_model_name": config.model_name}
    now = _sequences_now(config, info, stats) | _tokens_now(info, stats)
    return dataclasses.asdict(config) | settled | _values_dtype(info) | now | names


def _sequences_now(config: ServeConfig, info: EngineInfo | None, stats: Stats | None) -> dict[str, Any]:
    if info is None or stats is None:
        return {"max_num_seqs_reason": ""}
    reasons = []
    if info.max_num_seqs < config.wanted_num_seqs:
        reasons.append(f"there are {info.num_blocks} blocks, and each sequence needs one")
    if stats.max_num_seqs < info.max_num_seqs:
        reasons.append(f"halved: most prompts are longer than {LONG_PROMPT_TOKENS} tokens")
    return {"max_num_seqs": stats.max_num_seqs, "max_num_seqs_reason": "; ".join(reasons)}


def _values_dtype(info: EngineInfo | None) -> dict[str, Any]:
    return {} if info is None else {"kv_cache_dtype_v": info.kv_cache_dtype.rpartition("/")[2]}


def _tokens_now(info: EngineInfo | None, stats: Stats | None) -> dict[str, Any]:
    if info is None or stats is None or not 0 < stats.max_num_batched_tokens < info.max_num_batched_tokens:
        return {"max_num_batched_tokens_reason": ""}
    reason = "halved: there was no memory for a larger step"
    return {"max_num_batched_tokens": stats.max_num_batched_tokens, "max_num_batched_tokens_reason": reason}
