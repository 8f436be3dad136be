"""Who else sets fields of a service's children. Each is told of once, by the operator that saw it come. No I/O."""

from collections.abc import Mapping
from typing import Any

from octavo_operator import apply
from octavo_operator.events import notes
from octavo_operator.kinds import Ref
from octavo_operator.service import Key


class Strangers:
    """The managers of all services' children, as they were seen last."""

    def __init__(self) -> None:
        self._known: dict[Key, dict[Ref, frozenset[str]]] = {}

    def notes(self, key: Key, children: Mapping[Ref, Mapping[str, Any]]) -> list[notes.Note]:
        """Notes of those who came since the last look; who was there at the first is an old acquaintance."""
        before = self._known.get(key, {})
        self._known[key] = {ref: apply.other_managers(live) for ref, live in children.items()}
        return [
            notes.of_addition(ref, manager)
            for ref, managers in self._known[key].items()
            if ref in before
            for manager in sorted(managers - before[ref])
        ]

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)
