"""A pod's answer on `/state`, as a value. Pure.

What an older runtime does not tell is taken from what it does, or left open. What a pod says is not trusted: text is cut to one
printable line, numbers to sane ones.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from octavo_operator import names, pod_reason

_TEXT_LENGTH = 200
_STEPS = 16


class AnswerError(ValueError):
    """The bytes are not a runtime's state."""


@dataclasses.dataclass(frozen=True)
class PodState:
    """`reason` is what loads, warms, or hangs, with the numbers of this moment. `load` is requests per sequence slot, 1 is full.

    `level` and `steps` are those of the memory ladder; `blocks_total` is None until the engine is up. `unmoved_s` is for how long
    loading or warming has made no progress, None where the runtime does not tell; `ended` what the engine's process ended of last.
    """

    phase: str
    percent: int = 0
    reason: str = ""
    level: int = 0
    steps: tuple[str, ...] = ()
    blocks_total: int | None = None
    load: float = 0.0
    unmoved_s: float | None = None
    ended: str = ""


def parse(body: bytes) -> PodState:
    """Raises AnswerError."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"not JSON: {error}") from error
    if not isinstance(answer, dict) or answer.get("phase") not in names.PHASES:
        raise AnswerError(f"no phase of {', '.join(names.PHASES)}")
    config = _mapping(answer.get("config"))
    level = min(_count(answer.get("pressure_level")) or 0, len(names.LADDER))
    return PodState(
        phase=answer["phase"],
        percent=min(_count(answer.get("percent")) or 0, 100),
        reason=_text(answer.get("reason")),
        level=level,
        steps=_steps(answer.get("pressure_steps"), level),
        blocks_total=_count(answer.get("blocks_total")) or _count(config.get("num_blocks")),
        load=_load(answer, config),
        unmoved_s=_seconds(answer.get("progress_age_s")),
        ended=_text(_mapping(answer.get("engine")).get("last_end")),
    )


def _load(answer: Mapping[str, Any], config: Mapping[str, Any]) -> float:
    requests = (_count(answer.get("running")) or 0) + (_count(answer.get("waiting")) or 0)
    return max(requests, _count(answer.get("in_flight")) or 0) / (_count(config.get("max_num_seqs")) or 1)


def _steps(told: Any, level: int) -> tuple[str, ...]:
    if isinstance(told, list) and told and level:
        return tuple(_text(step)[:64] for step in told[:_STEPS])
    return names.LADDER[:level]


def _count(value: Any) -> int | None:
    """None for what is no number, `auto`, or not above zero."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53 else None


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None


def _text(value: Any) -> str:
    return pod_reason.plain(value)[:_TEXT_LENGTH] if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
