"""Whether a service answers under memory pressure, and what that costs its clients: the condition Degraded. Pure.

It flips only once the pods have said the same for 30 s. The status is the memory of what was told before: a new operator, whose
first round has not come in, leaves it as it is.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from octavo_operator import names
from octavo_operator.conditions import Condition
from octavo_operator.state.reading import SERVING, UNREACHABLE, Reading

TYPE = "Degraded"
STABLE_S = 30.0
_EFFECTS = dict(
    zip(
        names.LADDER,
        (
            "new requests may wait longer for their place",
            "cold pages move to slower tiers ahead of their reuse",
            "first tokens come later",
            "some requests pause and go on later",
            "long outputs are cut, long prompts are put off",
            "new requests keep their keys and values in 8 bits",
            "new requests are refused with 503",
        ),
        strict=True,
    )
)


@dataclasses.dataclass(frozen=True)
class Signal:
    """What the pods say together: `status` as a condition's, None while none has been asked; for how long it has been so."""

    status: str | None = None
    age_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`fields` are those of the status beside the condition."""

    condition: Condition
    fields: Mapping[str, Any]


def status_of(readings: Collection[Reading]) -> str | None:
    """True under pressure, Unknown where nobody who could serve answers, None where nobody was asked."""
    if not readings:
        return None
    if any(reading.level for reading in readings):
        return "True"
    if any(reading.phase in SERVING for reading in readings):
        return "False"
    return "Unknown" if any(reading.phase == UNREACHABLE for reading in readings) else "False"


def judge(
    signal: Signal, readings: Collection[Reading], live: Mapping[str, Any], *, askable: bool, since: str
) -> Verdict:
    """The condition and the field `degradation`. `live` is the status so far; `askable` whether any pod runs that could be asked;
    `since` the time, RFC 3339, since which the signal has been as it is."""
    before = next((entry for entry in live.get("conditions", ()) if entry["type"] == TYPE), None)
    told = signal.status if askable else "False"
    if before is not None and before["status"] != told and ((askable and signal.age_s < STABLE_S) or told is None):
        kept = {"degradation": live["degradation"]} if "degradation" in live else {}
        return Verdict(Condition(TYPE, before["status"], before["reason"], before["message"]), kept)
    if told == "True":
        was = live.get("degradation", {}) if before and before["status"] == "True" else {}
        return _degraded(readings, was.get("since", since))
    return Verdict(_at_ease(told, readings), {})


def _degraded(readings: Collection[Reading], since: str) -> Verdict:
    worst = max(readings, key=lambda reading: reading.level)
    step = names.LADDER[worst.level - 1]
    pressed, serving = sum(bool(reading.level) for reading in readings), len(readings)
    pods = f"{pressed} of {serving} pods are" if serving > 1 else "the pod is"
    message = (
        f"{pods} short of memory for keys and values, level {worst.level} of {len(names.LADDER)} ({step}): {_EFFECTS[step]}; "
        f"more replicas or more spec.runtime.kvCache.memory helps"
    )
    reason = "".join(part.capitalize() for part in step.split("_"))
    fields = {"degradation": {"level": worst.level, "steps": list(worst.steps), "since": since}}
    return Verdict(Condition(TYPE, "True", reason, message), fields)


def _at_ease(told: str | None, readings: Collection[Reading]) -> Condition:
    if told == "Unknown":
        message = f"no pod answers the operator on port {names.HEALTH_PORT} (/state): does a NetworkPolicy keep it out?"
        return Condition(TYPE, "Unknown", "Unreachable", message)
    if any(reading.phase in SERVING for reading in readings):
        return Condition(TYPE, "False", "EnoughMemory", "no pod is short of memory for keys and values")
    return Condition(TYPE, "False", "NoPodAnswers", "no pod takes requests now")
