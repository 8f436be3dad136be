"""What inspections found lately, for other services of the same model: one Job answers for all of them. No I/O; the clock is
passed in.

Kept in this process only: a service that has its answer keeps it in its status. An answer is shared for ten minutes, since a hub's
branch moves on; an error is nobody else's.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from octavo_operator.service import Key
from octavo_sizing.inspection import Inspection

FRESH_S = 600.0
# A service whose answer does not come leaves the question to others after this long, and those look again then.
ASKS_S = 30.0
# What a pod may name that is another thing in another namespace, or on another node.
_OWN_VOLUMES = {"configMap", "csi", "ephemeral", "hostPath", "persistentVolumeClaim", "projected", "secret"}


@dataclasses.dataclass(frozen=True)
class Question:
    """What a service's model is: `pod` finds out, and `key` is its digest. In another `scope` the answer may be another."""

    pod: Mapping[str, Any]
    key: str
    scope: str

    @property
    def name(self) -> tuple[str, str]:
        return self.scope, self.key


def scope_of(pod: Mapping[str, Any], namespace: str) -> str:
    """Empty where the pod finds the same in every namespace."""
    volumes = any(_OWN_VOLUMES & volume.keys() for volume in pod.get("volumes", ()))
    variables = any("valueFrom" in one for container in pod["containers"] for one in container.get("env", ())) or any(
        container.get("envFrom") for container in pod["containers"]
    )
    return namespace if volumes or variables or pod.get("imagePullSecrets") else ""


class Findings:
    """`look_at` is told the services that wait for what another one asks, once that is known."""

    def __init__(self, clock: Callable[[], float], look_at: Callable[[Key], None]) -> None:
        self._clock = clock
        self._look_at = look_at
        self._waiting: dict[tuple[str, str], set[Key]] = {}
        self._found: dict[tuple[str, str], tuple[Inspection, float]] = {}
        self._asked: dict[tuple[str, str], tuple[Key, float]] = {}
        self._failed: dict[tuple[str, str], float] = {}

    def learn(self, question: Question, answer: Inspection) -> None:
        """What an inspection has just given."""
        self._found.setdefault(question.name, (answer, self._clock()))
        self._leave(question.name)

    def failed(self, question: Question) -> None:
        """An inspection has failed: for a while everybody asks for himself."""
        self._failed[question.name] = self._clock()
        self._leave(question.name)

    def answer(self, question: Question) -> Inspection | None:
        found, at_s = self._found.get(question.name, (None, 0.0))
        if found is not None and self._clock() - at_s < FRESH_S:
            return found
        self._found.pop(question.name, None)
        return None

    def asks(self, question: Question, key: Key) -> bool:
        """Whether the service `key` is one to ask now."""
        now_s = self._clock()
        if now_s - self._failed.get(question.name, -FRESH_S) < FRESH_S:
            return True
        asker, since_s = self._asked.get(question.name, (key, now_s))
        if asker != key and now_s - since_s < ASKS_S:
            self._waiting.setdefault(question.name, set()).add(key)
            return False
        self._asked[question.name] = (key, since_s if asker == key else now_s)
        return True

    def forget(self, key: Key) -> None:
        """The service is no more, nor is what it asked: another one asks."""
        for waiting in self._waiting.values():
            waiting.discard(key)
        for name in [name for name, (asker, _) in self._asked.items() if asker == key]:
            self._leave(name)

    def _leave(self, name: tuple[str, str]) -> None:
        self._asked.pop(name, None)
        for key in self._waiting.pop(name, ()):
            self._look_at(key)
