"""Notes as Events of the API `events.k8s.io`: the same within ten minutes is one Event that counts, and nobody is flooded. Pure but
for its memory; the clocks are passed in.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from octavo_operator import kinds, names
from octavo_operator.events.notes import Note
from octavo_operator.observed import PodView
from octavo_operator.service import Key

T = TypeVar("T")

SERIES_S = 600.0
# So many at once for a service, and then one in so many seconds.
BURST = 20
REFILL_S = 20.0
_NOTE_LENGTH = 1024


@dataclasses.dataclass
class _Series:
    """An Event that was written: since when, how often, and when last."""

    name: str
    began: str
    count: int
    last_s: float


@dataclasses.dataclass
class _Allowance:
    left: float
    at_s: float

    def take(self, now_s: float) -> bool:
        self.left = min(float(BURST), self.left + (now_s - self.at_s) / REFILL_S)
        self.at_s = now_s
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


@dataclasses.dataclass(frozen=True)
class Subject:
    """The InferenceService that notes are about, and its pods."""

    key: Key
    uid: str
    pods: tuple[PodView, ...] = ()


class Ledger:
    """`clock` is monotonic; `instance` is who writes the Events. What it remembers goes after ten minutes."""

    def __init__(self, clock: Callable[[], float], instance: str) -> None:
        self._clock = clock
        self._instance = instance
        self._series: dict[str, _Series] = {}
        self._allowances: dict[str, _Allowance] = {}

    def event(self, subject: Subject, note: Note, now: str) -> dict[str, Any] | None:
        """The Event to be applied; None where the service has told too much of late. `now` is RFC 3339 with microseconds."""
        now_s = self._clock()
        self._forget(now_s)
        # What is remembered stands in the order of its last use.
        allowance = self._allowances[subject.uid] = self._allowances.pop(subject.uid, _Allowance(BURST, now_s))
        if not allowance.take(now_s):
            return None
        same = hashlib.sha256(
            "\0".join((subject.uid, note.type, note.reason, note.pod, note.text)).encode()
        ).hexdigest()
        series = self._series.pop(same, None)
        if series is None:
            name = f"{subject.key.name}.{hashlib.sha256(f'{same}{now}'.encode()).hexdigest()[:16]}"
            series = _Series(name, now, 1, now_s)
        else:
            series.count, series.last_s = series.count + 1, now_s
        self._series[same] = series
        return _event(subject, note, series, self._instance, now)

    def _forget(self, now_s: float) -> None:
        _drop_while(self._series, lambda entry: now_s - entry.last_s >= SERIES_S)
        full_s = BURST * REFILL_S
        _drop_while(self._allowances, lambda entry: now_s - entry.at_s >= full_s)


def _drop_while(entries: dict[str, T], old: Callable[[T], bool]) -> None:
    """Drops from the beginning what is old: each look costs as much as there is to drop."""
    while entries and old(entries[first := next(iter(entries))]):
        del entries[first]


def _event(subject: Subject, note: Note, series: _Series, instance: str, now: str) -> dict[str, Any]:
    pod = next((pod for pod in subject.pods if pod.name == note.pod), None)
    repeated = {"series": {"count": series.count, "lastObservedTime": now}} if series.count > 1 else {}
    related = {"related": _pod_reference(subject.key, pod)} if pod else {}
    return {
        "apiVersion": kinds.EVENT.api_version,
        "kind": kinds.EVENT.kind,
        "metadata": {"name": series.name, "namespace": subject.key.namespace},
        "eventTime": series.began,
        "reportingController": names.FIELD_MANAGER,
        "reportingInstance": instance,
        "action": "Reconcile",
        "type": note.type,
        "reason": note.reason[:128],
        "note": note.text[:_NOTE_LENGTH],
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": subject.key.namespace,
            "name": subject.key.name,
            "uid": subject.uid,
        },
        **related,
        **repeated,
    }


def _pod_reference(key: Key, pod: PodView) -> Mapping[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "namespace": key.namespace, "name": pod.name, "uid": pod.uid}
