"""What is known of a service's model: from its status, else from the pods that inspect it. Pure.

Everything is under a key, the digest of the inspecting pod: what was found out by another image, or of another source, is not
known. A result is kept in the status for good, so neither a restart of the operator nor the end of the Job loses it.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from octavo_operator import names, pod_reason
from octavo_sizing.errors import InspectionError
from octavo_sizing.inspection import Inspection

_ERROR_LENGTH = 700

Outcome = Literal["waiting", "succeeded", "failed"]


@dataclasses.dataclass(frozen=True)
class InspectionView:
    """A pod that inspects: `text` is its result, what it died of, or what holds it up, empty where nothing does."""

    key: str
    outcome: Outcome
    text: str


@dataclasses.dataclass(frozen=True)
class Insight:
    """What the inspection gave, or why it failed; without both it is on its way, and `waiting` says what holds it up."""

    key: str
    inspection: Inspection | None = None
    error: str = ""
    waiting: str = ""


def view(live: Mapping[str, Any]) -> InspectionView:
    key, status = live["metadata"]["labels"].get(names.INSPECTION_LABEL, ""), live.get("status", {})
    container = pod_reason.runtime(status.get("containerStatuses", ())) or {}
    state = container.get("state", {})
    ended = state.get("terminated", {})
    # The container's end is told before the pod's.
    if status.get("phase") == "Succeeded" or ended.get("exitCode") == 0:
        return InspectionView(key, "succeeded", ended.get("message", "").strip())
    if status.get("phase") == "Failed" or ended:
        return InspectionView(key, "failed", pod_reason.death(container) or pod_reason.reason(live))
    reason = pod_reason.reason(live)
    expected = "running" in state or pod_reason.word(reason) in pod_reason.PATIENT
    return InspectionView(key, "waiting", "" if expected else reason)


def insight(key: str, status: Mapping[str, Any], views: Iterable[InspectionView]) -> Insight:
    """What `key` has found out, `status` being the service's own."""
    recorded = status.get("inspection", {})
    recorded = recorded if recorded.get("key") == key else {}
    if "model" in recorded:
        try:
            return Insight(key, Inspection.from_fields(recorded))
        except InspectionError:
            pass  # of a newer operator that was taken back, or changed by hand: found out anew
    error, waiting = recorded.get("error", ""), ""
    for one in sorted(views, key=lambda one: (one.outcome, one.text)):
        if one.key != key:
            continue
        if one.outcome == "succeeded":
            try:
                return Insight(key, Inspection.from_json(one.text))
            except InspectionError as wrong:
                error = str(wrong) if one.text else "the inspection ended without a result"
        elif one.outcome == "failed":
            error = one.text
        else:
            waiting = one.text
    return Insight(key, error=error[:_ERROR_LENGTH]) if error else Insight(key, waiting=waiting)


def record(found: Insight) -> dict[str, Any]:
    """`found` as the status keeps it; empty where there is nothing to keep."""
    if found.inspection is not None:
        return {"key": found.key, **found.inspection.to_fields()}
    return {"key": found.key, "error": found.error} if found.error else {}
