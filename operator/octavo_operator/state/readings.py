"""The newest reading of every pod, and what of them the status may show now. No I/O; the clock is passed in.

Pods say something else at every moment; a status that followed would be written all the time. So what is shown of a service changes
at most every 10 s, whatever its pods say, and a pod that does not answer is given three chances.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping

from octavo_operator.service import Key
from octavo_operator.state import degradation
from octavo_operator.state.answer import PodState
from octavo_operator.state.reading import UNREACHABLE, Reading, reading

SHOWN_EVERY_S = 10.0
_MISSES = 3


@dataclasses.dataclass(frozen=True)
class Told:
    """What a service's pods say, as the status may show it: readings by the pod's uid, loads (1 is full) as they are now."""

    readings: Mapping[str, Reading] = dataclasses.field(default_factory=dict)
    loads: Mapping[str, float] = dataclasses.field(default_factory=dict)
    signal: degradation.Signal = dataclasses.field(default_factory=degradation.Signal)


@dataclasses.dataclass
class _Pod:
    state: PodState | None = None
    moved_s: float = 0.0
    misses: int = 0
    reading: Reading | None = None

    def hear(self, state: PodState | None, now_s: float) -> None:
        if state is None:
            self.misses += 1
            if self.misses >= _MISSES:
                self.reading, self.state = Reading(UNREACHABLE), None
            return
        if self.state is None or _position(state) != _position(self.state):
            self.moved_s = now_s
        self.state, self.misses = state, 0
        self.reading = reading(state, now_s - self.moved_s)


@dataclasses.dataclass
class _OfService:
    pods: dict[str, _Pod] = dataclasses.field(default_factory=dict)
    shown: Mapping[str, Reading] = dataclasses.field(default_factory=dict)
    shown_at_s: float = float("-inf")
    status: str | None = None
    status_since_s: float = 0.0
    flip_due: bool = False
    load_due: bool = False

    def current(self) -> dict[str, Reading]:
        return {uid: pod.reading for uid, pod in self.pods.items() if pod.reading is not None}


class Readings:
    """Single-threaded: all calls come from one event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._services: dict[Key, _OfService] = {}
        self._by_load: set[Key] = set()

    def told(self, key: Key, uid: str, state: PodState | None) -> None:
        """A pod answered, or did not (None)."""
        now_s = self._clock()
        service = self._services.setdefault(key, _OfService())
        pod = service.pods.setdefault(uid, _Pod())
        load = pod.state.load if pod.state else 0.0
        pod.hear(state, now_s)
        service.load_due |= state is not None and state.load != load
        self._judge(service, now_s)

    def keep_only(self, alive: Mapping[Key, Collection[str]]) -> None:
        """Forgets services and pods that are not among `alive` (uids by service)."""
        now_s = self._clock()
        for key in list(self._services):
            service, uids = self._services[key], alive.get(key, ())
            for uid in [uid for uid in service.pods if uid not in uids]:
                del service.pods[uid]
                self._judge(service, now_s)
            if not service.pods:
                del self._services[key]
        self._by_load &= alive.keys()

    def follow_load(self, key: Key, follow: bool) -> None:
        """Whether a change of load alone is worth another look at the service."""
        (self._by_load.add if follow else self._by_load.discard)(key)

    def due(self) -> list[Key]:
        """Services that shall be looked at again, for what they say is not what is shown; it is shown from now on."""
        now_s = self._clock()
        return [key for key, service in self._services.items() if self._show(key, service, now_s)]

    def of(self, key: Key) -> Told:
        service = self._services.get(key)
        if service is None:
            return Told()
        loads = {uid: pod.state.load for uid, pod in service.pods.items() if pod.state is not None}
        age_s = self._clock() - service.status_since_s
        return Told(service.shown, loads, degradation.Signal(service.status, age_s))

    def _judge(self, service: _OfService, now_s: float) -> None:
        status = degradation.status_of(service.current().values())
        if status != service.status:
            service.status, service.status_since_s, service.flip_due = status, now_s, True

    def _show(self, key: Key, service: _OfService, now_s: float) -> bool:
        flips = service.flip_due and now_s - service.status_since_s >= degradation.STABLE_S
        current = service.current()
        news = current != service.shown and now_s - service.shown_at_s >= SHOWN_EVERY_S
        load = service.load_due and key in self._by_load
        if not (flips or news or load):
            return False
        if flips:
            service.flip_due = False
        if news:
            service.shown, service.shown_at_s = current, now_s
        service.load_due = False
        return True


def _position(state: PodState) -> Iterable[object]:
    """What moves while a pod loads."""
    return state.phase, state.percent, state.reason
