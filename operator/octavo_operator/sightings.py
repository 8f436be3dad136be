"""What watches have shown of objects: small values, by the service that they belong to. No I/O."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from octavo_operator.service import Key

V = TypeVar("V")


class Sightings(Generic[V]):
    """One value for each object, which its uid names."""

    def __init__(self) -> None:
        self._by_service: dict[Key, dict[str, V]] = {}
        self._services: dict[str, Key] = {}

    def of(self, key: Key) -> tuple[V, ...]:
        return tuple(self._by_service.get(key, {}).values())

    def all(self) -> Mapping[Key, tuple[V, ...]]:
        return {key: tuple(found.values()) for key, found in self._by_service.items()}

    def put(self, key: Key, uid: str, value: V) -> bool:
        """Whether that is another value than before, or the first."""
        if self._services.get(uid, key) != key:
            self.drop(uid)
        self._services[uid] = key
        of_service = self._by_service.setdefault(key, {})
        if uid in of_service and of_service[uid] == value:
            return False
        of_service[uid] = value
        return True

    def drop(self, uid: str) -> None:
        """The object is gone, or belongs to no service any more."""
        key = self._services.pop(uid, None)
        if key is not None:
            del self._by_service[key][uid]
            if not self._by_service[key]:
                del self._by_service[key]
