"""How soon a child may be written again where someone else keeps changing it. No I/O; the clock is passed in.

Two controllers that put their own value back at each event write as fast as the API server answers, for ever. So the same child
written again within a minute waits: the first repetition not at all (drift is put back at once), then 1, 2, 4 … 30 s. A child
that stayed right for a minute after a write is no longer contested, and one for which something else is wanted never was.

Nothing of this is stored in objects: an operator that restarts begins to count anew.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Set
from typing import Any

from octavo_operator import backoff
from octavo_operator.service import Key

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
CALM_S = 60.0
# One repetition may be a hand that slipped; from the second on people are told.
_REPEATS_OF_A_CONTEST = 2


@dataclasses.dataclass(frozen=True)
class Contest:
    """The last write to a child: `wanted` is a digest of it, `repeats` how often the same had been written within a minute before.

    `about` says what differed then; `waiting` that it differs again and is left so for now.
    """

    wanted: str
    at_s: float
    repeats: int
    about: str
    waiting: bool = False

    @property
    def open(self) -> bool:
        return self.waiting or self.repeats >= _REPEATS_OF_A_CONTEST


def pause_s(last: Contest | None, wanted: str, now_s: float) -> float:
    """Seconds from `now_s` until `wanted` may be written; 0 is now."""
    if last is None or last.wanted != wanted or _calm(last, now_s):
        return 0.0
    pause = backoff.delay_s(FIRST_PAUSE_S, LONGEST_PAUSE_S, last.repeats)
    return max(0.0, last.at_s + pause - now_s)


def written(last: Contest | None, wanted: str, about: str, now_s: float) -> Contest:
    """What there is to remember once `wanted` was written."""
    first = last is None or last.wanted != wanted or _calm(last, now_s)
    return Contest(wanted, now_s, 0 if last is None or first else last.repeats + 1, about)


def look_again_s(last: Contest, now_s: float) -> float | None:
    """Seconds until the next write is due, or until it shows that the child was left alone; None where nobody contests it."""
    if last.waiting:
        return pause_s(last, last.wanted, now_s)
    return max(0.0, last.at_s + CALM_S - now_s) if last.open else None


def _calm(last: Contest, now_s: float) -> bool:
    return now_s - last.at_s >= CALM_S


class Contests:
    """The last writes to the children of all services, by service and by child."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[Key, dict[str, Contest]] = {}

    def may_write(self, key: Key, child: str, body: Mapping[str, Any], about: str) -> bool:
        """Whether `body`, which the live child is not like, may be written now; if not, it is waited for."""
        last = self._last.get(key, {}).get(child)
        if last is None or pause_s(last, _digest(body), self._clock()) == 0.0:
            return True
        self._last[key][child] = dataclasses.replace(last, about=about, waiting=True)
        return False

    def wrote(self, key: Key, child: str, body: Mapping[str, Any], about: str) -> None:
        of_service = self._last.setdefault(key, {})
        of_service[child] = written(of_service.get(child), _digest(body), about, self._clock())

    def nothing_to_write(self, key: Key, child: str) -> None:
        """The child is as it shall be, or going, at least now."""
        last = self._last.get(key, {}).get(child)
        if last is None:
            return
        if _calm(last, self._clock()):
            del self._last[key][child]
        else:
            self._last[key][child] = dataclasses.replace(last, waiting=False)

    def only(self, key: Key, children: Set[str]) -> None:
        """The service has no other children any more."""
        if key in self._last:
            self._last[key] = {child: last for child, last in self._last[key].items() if child in children}

    def forget(self, key: Key) -> None:
        self._last.pop(key, None)

    def complaint(self, key: Key) -> str:
        """What others keep changing, as a sentence that stays the same while they do; empty where nothing is contested."""
        contested = "; ".join(last.about for last in self._last.get(key, {}).values() if last.open)
        if not contested:
            return ""
        return f"{contested}; it is put back, at most every {LONGEST_PAUSE_S:.0f} s in the end: stop who does it"

    def look_again_s(self, key: Key) -> float | None:
        """Seconds after which the service needs a look without any event."""
        now_s = self._clock()
        due = [look_again_s(last, now_s) for last in self._last.get(key, {}).values()]
        return min((delay for delay in due if delay is not None), default=None)


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
