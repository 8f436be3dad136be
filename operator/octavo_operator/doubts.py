"""When to believe the scheduler rather than the count of free room. No I/O; the clock is passed in.

The count knows nothing of affinity to other pods, of topology spread, of volumes, and is up to half a minute old. So a new pod that
the scheduler keeps refusing for `GRACE_S`, while nothing of the service ends that could still make room for it, is taken at its
word; and where the count had seen room, it is not asked again for that template. Nothing of this is stored in objects: an operator
that restarts learns it anew.
"""

import dataclasses
from collections.abc import Callable

from octavo_operator.service import Key
from octavo_operator.strategy import Standing

GRACE_S = 30.0


@dataclasses.dataclass(frozen=True)
class Refusal:
    """What keeps new pods from a place now: `words` of the scheduler or the API server; `of_pods` of them may be in the way of
    pods of the service itself.
    """

    words: str = ""
    of_pods: int = 0


@dataclasses.dataclass(frozen=True)
class _Doubt:
    """`since_s`: since when new pods of that `template` are refused with nothing ending; None while they are not."""

    template: str
    since_s: float | None = None
    proven: bool = False


class Doubts:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._of: dict[Key, _Doubt] = {}

    def weigh(self, key: Key, template: str, standing: Standing, refusal: Refusal, seems_free: bool) -> Standing:
        """`standing` with what is to be believed of `refusal`; `seems_free`: the count sees room for one more, or there is none."""
        known = self._of.get(key)
        if known is None or known.template != template:
            known = _Doubt(template)
        if not refusal.words or standing.ending:
            known = dataclasses.replace(known, since_s=None)
        elif known.since_s is None:
            known = dataclasses.replace(known, since_s=self._clock())
        if known.since_s is None or self._clock() - known.since_s < GRACE_S:
            refusal = Refusal()
        known = dataclasses.replace(known, proven=known.proven or (refusal.of_pods > 0 and seems_free))
        if known == _Doubt(template):
            self._of.pop(key, None)
        else:
            self._of[key] = known
        return dataclasses.replace(standing, words=refusal.words, refused=refusal.of_pods, doubted=known.proven)

    def forget(self, key: Key) -> None:
        self._of.pop(key, None)
