"""Pods as the status shows them: what Kubernetes says of them and what they say of themselves, together. Pure."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from octavo_operator import names, pod_reason
from octavo_operator.observed import PodView
from octavo_operator.state.reading import UNREACHABLE, Reading

_ON_THE_WAY = ("Pending", "Starting", "Loading", "Warming")
_UNREADABLE = (
    f"Unknown: the operator cannot read its /state on port {names.HEALTH_PORT}; does a NetworkPolicy keep it out?"
)


def shown(pods: Iterable[PodView], readings: Mapping[str, Reading], live: Mapping[str, Any]) -> tuple[PodView, ...]:
    """`pods` with phase, pressure level, blocks, and a reason that knows how far loading is.

    `readings` are by the pod's uid. A pod that was not asked yet keeps what `live`, the status so far, says of it: a new operator
    changes nothing before it has asked.
    """
    before = {entry["name"]: entry for entry in live.get("pods", ())}
    return tuple(_shown(pod, readings.get(pod.uid), before.get(pod.name, {})) for pod in pods)


def _shown(pod: PodView, reading: Reading | None, before: Mapping[str, Any]) -> PodView:
    if pod.ending or not pod.running:
        return dataclasses.replace(pod, phase=_phase_by_kubernetes(pod))
    if reading is None:
        return _not_asked(pod, before)
    if reading.phase == UNREACHABLE:
        return _out_of_reach(pod, before)
    phase = reading.phase.capitalize()
    return dataclasses.replace(
        pod,
        phase="Ready" if pod.ready and phase in _ON_THE_WAY else phase,  # the probe was asked after we were
        reason=_reason(pod, reading),
        pressure_level=reading.level if reading.blocks_total is not None else None,
        blocks_total=reading.blocks_total,
    )


def _not_asked(pod: PodView, before: Mapping[str, Any]) -> PodView:
    phase = str(before.get("phase", ""))
    if not phase or (pod.ready and phase in _ON_THE_WAY):
        phase = _phase_by_kubernetes(pod)
    same = before.get("phase") == phase and not pod.ready
    return dataclasses.replace(
        pod,
        phase=phase,
        reason=before.get("reason", pod.reason) if same else pod.reason,
        pressure_level=before.get("pressureLevel"),
        blocks_total=before.get("blocksTotal"),
    )


def _out_of_reach(pod: PodView, before: Mapping[str, Any]) -> PodView:
    if not (pod.started and pod.serving):
        return dataclasses.replace(pod, phase=_phase_by_kubernetes(pod))  # before its first answer it is not up
    return dataclasses.replace(
        pod, phase="Unknown", reason=pod.reason or _UNREADABLE, blocks_total=before.get("blocksTotal")
    )


def _phase_by_kubernetes(pod: PodView) -> str:
    if pod.ending:
        return "Draining"
    if pod.failed:
        return "Failed"
    if not pod.running:
        return "Pending"
    if pod.ready:
        return "Ready"
    return "Loading" if pod.started else "Starting"


def _reason(pod: PodView, reading: Reading) -> str:
    """What Kubernetes says, but for a runtime that loads, warms up, drains or hangs, which knows better."""
    if pod.ready or pod_reason.word(pod.reason) not in ("Loading", "Starting"):
        return pod.reason
    if reading.phase not in ("loading", "warming", "draining", "stopped", "hung"):
        return pod.reason
    percent = f" ({reading.percent} %)" if reading.percent else ""
    doing = reading.doing or {"loading": "the model", "warming": "up"}.get(reading.phase, "")
    stalled = f"; no progress for over {reading.stalled_s // 60} min" if reading.stalled_s else ""
    again = pod.reason.partition(" again after ")[2]
    if reading.ended:
        # The container lives on, so that only the runtime knows.
        return f"EngineEnded: {reading.ended}; {reading.phase} again{percent}{stalled}"[: pod_reason.LENGTH]
    text = f"{reading.phase.capitalize()}{percent}: {doing}{stalled}{f'; again after {again}' if again else ''}"
    return text[: pod_reason.LENGTH]
