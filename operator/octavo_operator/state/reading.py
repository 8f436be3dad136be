"""What the status may say of a pod's `/state`: as coarse as it is, so that two equal readings need no write. Pure."""

import dataclasses
import re

from octavo_operator.state.answer import PodState

UNREACHABLE = "unknown"
SERVING = ("ready", "pressured")
_PROGRESS_STEP_PERCENT = 25
# How long nothing has moved, as it is told; the runtime itself calls it hung after 5 minutes.
_STALLS_S = (240, 120, 60)


@dataclasses.dataclass(frozen=True)
class Reading:
    """`phase` is the runtime's, or `unknown` where the pod does not answer; `percent` of loading or warming is rounded down to
    quarters; `doing` has no numbers; `stalled_s` is 0 or for how long, at least, nothing has moved. `ended` is what an earlier
    process of the engine ended of, while its successor loads."""

    phase: str
    percent: int = 0
    doing: str = ""
    stalled_s: int = 0
    level: int = 0
    steps: tuple[str, ...] = ()
    blocks_total: int | None = None
    ended: str = ""


def reading(state: PodState, unmoved_s: float) -> Reading:
    """`unmoved_s` is for how long phase, percentage and reason have been the same, where the runtime does not say it better."""
    still_s = unmoved_s if state.unmoved_s is None else state.unmoved_s
    way = state.phase in ("loading", "warming")
    return Reading(
        phase=state.phase,
        percent=state.percent // _PROGRESS_STEP_PERCENT * _PROGRESS_STEP_PERCENT if way else 0,
        doing="" if state.phase in SERVING else still(state.reason),
        stalled_s=next((limit_s for limit_s in _STALLS_S if way and still_s >= limit_s), 0),
        level=state.level,
        steps=state.steps,
        blocks_total=state.blocks_total,
        ended=state.ended if way else "",
    )


def still(text: str) -> str:
    """`text` without what changes from one moment to the next: percentages, durations, counts. Names with digits stay."""
    text = re.sub(r"^\d+ %,? ?", "", text)
    text = re.sub(r" \([^()]*\d[^()]*\)", "", text)
    text = re.sub(r" for \d[\d.]* (s|seconds|min|minutes)\b", "", text)
    return re.sub(r"(?<![\w./:-])\d[\d.,]*(?![\w./:-])", "…", text).strip()
