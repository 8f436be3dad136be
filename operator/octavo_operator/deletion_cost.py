"""Which pods a scale-down takes first: the idlest, by the annotation that ReplicaSets read. Pure.

Load moves all the time, so it is told in four buckets, on a change of bucket, and at most once a pod a minute. Only pods of an
autoscaled service that has a choice are annotated; a cost that somebody else set is theirs.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from octavo_operator import names
from octavo_operator.observed import PodView

EVERY_S = 60.0
# Costs by bucket: idle, up to a third of the sequence slots taken, up to two thirds, more.
COSTS = (0, 100, 200, 300)


@dataclasses.dataclass(frozen=True)
class Mark:
    """A pod and the cost that it shall have."""

    pod: PodView
    cost: int

    @property
    def annotations(self) -> Mapping[str, str]:
        return {names.DELETION_COST_ANNOTATION: str(self.cost)}


def cost(load: float) -> int:
    """`load` is requests per sequence slot: 1 is full, more is a queue."""
    return COSTS[0 if load <= 0 else 1 if load <= 1 / 3 else 2 if load <= 2 / 3 else 3]


def marks(pods: Iterable[PodView], loads: Mapping[str, float]) -> list[Mark]:
    """The pods whose cost is not that of their load; `loads` are by uid. None where there is no choice between two ready pods."""
    ready = [pod for pod in pods if pod.ready]
    if len(ready) < 2:
        return []
    return [
        Mark(pod, wanted)
        for pod in ready
        if pod.uid in loads
        and not pod.cost_is_foreign
        and (pod.deletion_cost or "0") != str(wanted := cost(loads[pod.uid]))
    ]


class Turns:
    """When each pod was annotated last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at_s: dict[str, float] = {}

    def take(self, wanted: Iterable[Mark]) -> list[Mark]:
        """Those of the marks that may be written now; they count as written."""
        now_s = self._clock()
        self._at_s = {uid: at_s for uid, at_s in self._at_s.items() if now_s - at_s < EVERY_S}
        free = [mark for mark in wanted if mark.pod.uid not in self._at_s]
        self._at_s |= dict.fromkeys((mark.pod.uid for mark in free), now_s)
        return free

    def wait_s(self, wanted: Iterable[Mark]) -> float | None:
        """Seconds until one of the marks may be written; None where there are none."""
        now_s = self._clock()
        waits = [self._at_s.get(mark.pod.uid, now_s - EVERY_S) + EVERY_S - now_s for mark in wanted]
        return max(0.0, min(waits)) if waits else None
