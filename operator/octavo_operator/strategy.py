"""How `Auto` replaces pods: from where they stand and what room there is. Pure.

The rule, derived anew from what is live at each look. Placed pods that do not end are `P`, `n` are wanted, and `slots` more of the
new ones fit:

- `slots + P > n`: one pod more than wanted can exist, so no old one has to stop before its successor is ready (Surge). The sum
  stays the same while the rollout itself moves pods between its terms, so the choice does not flap.
- Else an old pod has to stop first (OneByOne). New pods that wait for room would use up what may be missing, and the rollout
  would stand still: each of them raises it by one (`at_once`), until enough old pods are gone for the first to fit.
- Nothing would be won even by stopping all old pods: they stay, and the rollout waits for room. Surge holds it there.
- Old and new cannot run side by side, or nothing new fits before the last of several old pods is gone: Recreate.
"""

import dataclasses
from typing import Literal

from octavo_operator.capacity.room import Room, Tenant

Name = Literal["Surge", "OneByOne", "Recreate"]


@dataclasses.dataclass(frozen=True)
class Standing:
    """The pods of a service that do not end: for each, its place, or None where it has none yet.

    `old` are those of an earlier template; `ending` counts pods that are about to be gone. `words`: what the scheduler keeps
    saying of a new pod though nothing of the service ends any more; `refused` counts those that an old pod's end may help;
    `doubted` says that they were refused where there seemed to be room.
    """

    wanted: int
    old: tuple[Tenant | None, ...] = ()
    new: tuple[Tenant | None, ...] = ()
    ending: int = 0
    words: str = ""
    refused: int = 0
    doubted: bool = False

    @property
    def old_placed(self) -> tuple[Tenant, ...]:
        return _placed(self.old)

    @property
    def new_placed(self) -> tuple[Tenant, ...]:
        return _placed(self.new)

    @property
    def old_waiting(self) -> int:
        """Old pods without a place. Whoever stops them takes nothing from anyone."""
        return len(self.old) - len(self.old_placed)

    @property
    def waiting(self) -> int:
        """New pods without a place."""
        return len(self.new) - len(self.new_placed)

    @property
    def missing(self) -> int:
        """Wanted pods that have no place yet, made or not."""
        return max(0, self.wanted - len(self.new_placed))

    @property
    def surplus(self) -> int:
        """Pods, with a place or without, beyond those that are wanted."""
        return max(0, len(self.old) + len(self.new) - self.wanted)


@dataclasses.dataclass(frozen=True)
class Outlook:
    """What a step was planned by. `room` is None where it was not asked for or is not known, and then `unknown` says why.

    `failing` is what a pod of the current template died of or cannot get over.
    """

    standing: Standing
    room: Room | None = None
    unknown: str = ""
    failing: str = ""

    @property
    def is_quiet(self) -> bool:
        """No pod is to be replaced, and every wanted one has its place."""
        return not self.standing.old and not self.standing.missing


@dataclasses.dataclass(frozen=True)
class Choice:
    """`at_once` old pods may be missing (OneByOne). `held`: nothing that the operator may do brings the rollout on."""

    strategy: Name
    reason: str
    at_once: int = 1
    held: bool = False


def choose(standing: Standing, room: Room | None, unknown: str, device: str, exclusive: str = "") -> Choice:
    """`unknown` says why there is no `room`; `exclusive` what keeps old and new pods from running side by side."""
    if not standing.old:
        return Choice("Surge", "Surge: nothing is being replaced")
    if standing.missing == 0:
        return Choice("Surge", "Surge: every new pod has its place, and an old one stops as each of them is ready")
    if exclusive:
        return Choice("Recreate", f"Recreate: {exclusive}, so the old pods stop first; {_gap(0)}")
    if room is None or standing.doubted:
        return _by_what_the_scheduler_says(standing, unknown if room is None else "", device)
    return _by_room(standing, room)


def _by_room(standing: Standing, room: Room) -> Choice:
    slots, placed = room.slots(), len(standing.old_placed) + len(standing.new_placed)
    if slots + placed > standing.wanted:
        return Choice("Surge", f"Surge: there is room for one more pod of {room.need()} before an old one stops")
    short = f"there is no room for one more pod of {room.need()} ({room.told()})"
    if room.slots(standing.old_placed) == slots and not standing.old_waiting:
        return Choice("Surge", f"Surge: {short}, nor would there be without the old pods, so these stay", held=True)
    if slots == 0 and _needs_all_gone(standing, room):
        count = len(standing.old_placed)
        return Choice("Recreate", f"Recreate: {short} before all {count} old ones are gone; {_gap(0)}")
    at_once = max(1, 1 + max(0, standing.waiting - slots) - standing.surplus)
    return Choice("OneByOne", _one_by_one(short, standing.wanted, at_once), at_once)


def _by_what_the_scheduler_says(standing: Standing, unknown: str, device: str) -> Choice:
    if not standing.doubted and device == "cpu":
        return Choice("Surge", f"Surge: CPU pods rarely lack room for one more ({unknown})")
    why = unknown or "the scheduler finds no place for one more pod beside the old ones"
    at_once = max(1, 1 + standing.refused - standing.surplus)
    return Choice("OneByOne", _one_by_one(why, standing.wanted, at_once), at_once)


def _needs_all_gone(standing: Standing, room: Room) -> bool:
    """Whether nothing new fits before the last of several old pods is gone."""
    old = standing.old_placed
    if len(old) < 2 or standing.new_placed:
        return False
    return not any(room.slots(old[:index] + old[index + 1 :]) for index in range(len(old)))


def _one_by_one(why: str, wanted: int, at_once: int) -> str:
    return f"OneByOne: {why}, so an old pod stops before its successor starts; {_gap(max(0, wanted - at_once))}"


def _gap(left: int) -> str:
    if left == 0:
        return "until that one is ready nothing answers"
    return f"meanwhile {left} pods answer" if left > 1 else "meanwhile 1 pod answers"


def _placed(pods: tuple[Tenant | None, ...]) -> tuple[Tenant, ...]:
    return tuple(pod for pod in pods if pod is not None)
