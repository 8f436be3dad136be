"""Live objects as the watches and the operator's own requests last told of them, so that they need not be read again.

Kept are InferenceServices and their children: what a watch shows. The newest version wins, whoever told of it; resource versions of
one kind are numbers that only grow (what is no number is never kept). While a write is under way nothing is known, nor after one
that failed, so the next look reads. An answer is not kept either where a watch told of an end since it was asked for: it may tell
of what is no more. What a watch should have told and did not, `forget` mends: at each resync, and where a watch begins anew with
a list.

A copy is the object's JSON, a fifth of what it takes as a dict.
"""

import json
from collections.abc import Awaitable, Mapping
from typing import Any, NamedTuple, TypeVar

from octavo_operator import kinds, kube, names
from octavo_operator.kinds import Kind
from octavo_operator.service import Key

Live = TypeVar("Live", dict[str, Any], dict[str, Any] | None)


class _Copy(NamedTuple):
    version: int
    text: str


class Mirror:
    """Single-threaded: all calls come from one event loop."""

    def __init__(self, api: kube.Kube) -> None:
        self._api = api
        self._copies: dict[Kind, dict[Key, _Copy]] = {}
        self._ends = 0

    async def read(self, kind: Kind, key: Key) -> dict[str, Any] | None:
        """The live object, None where there is none. It may lag behind by what a watch is about to tell."""
        if (copy := self._copies.get(kind, {}).get(key)) is not None:
            found: dict[str, Any] = json.loads(copy.text)
            return found
        return await self._answered(kind, self._api.get(kind, key))

    async def apply(self, kind: Kind, body: Mapping[str, Any], manager: str = names.FIELD_MANAGER) -> dict[str, Any]:
        """As `Kube.apply`."""
        self._drop(kind, _key(body))
        return await self._answered(kind, self._api.apply(kind, body, manager))

    async def apply_status(self, kind: Kind, live: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """As `Kube.apply_status`."""
        self._drop(kind, _key(live))
        await self._answered(kind, self._api.apply_status(kind, live, status))

    def heard(self, kind: Kind, live: Mapping[str, Any]) -> bool:
        """A watch showed `live`. Whether that is newer than what was known, which own writes already are."""
        return self._keep(kind, live)

    def gone(self, kind: Kind, key: Key) -> None:
        """A watch told that the object is no more."""
        self._ends += 1
        self._drop(kind, key)

    def forget(self, kind: Kind | None = None) -> None:
        """The objects of a kind, or all, are read again before they are believed."""
        self._ends += 1
        if kind is None:
            self._copies.clear()
        else:
            self._copies.pop(kind, None)

    async def _answered(self, kind: Kind, request: Awaitable[Live]) -> Live:
        ends = self._ends
        live = await request
        if live is not None and ends == self._ends:
            self._keep(kind, live)
        return live

    def _drop(self, kind: Kind, key: Key) -> None:
        self._copies.get(kind, {}).pop(key, None)

    def _keep(self, kind: Kind, live: Mapping[str, Any]) -> bool:
        key, version = _key(live), live["metadata"].get("resourceVersion", "")
        if not version.isdecimal() or not _is_watched(kind, live):
            self._drop(kind, key)
            return True
        copies = self._copies.setdefault(kind, {})
        known = copies.get(key)
        if known is not None and known.version >= int(version):
            return False
        copies[key] = _Copy(int(version), json.dumps(live, ensure_ascii=False, separators=(",", ":")))
        return True


def _key(live: Mapping[str, Any]) -> Key:
    return Key(live["metadata"]["namespace"], live["metadata"]["name"])


def _is_watched(kind: Kind, live: Mapping[str, Any]) -> bool:
    """Whether a watch tells of each change: children are watched by their label."""
    return kind == kinds.INFERENCE_SERVICE or live["metadata"].get("labels", {}).get(names.MANAGED_BY_LABEL) == (
        names.MANAGED_BY
    )
