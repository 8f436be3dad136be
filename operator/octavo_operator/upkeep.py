"""The children of a service, kept as they are desired: what is no longer desired is deleted, what differs is applied.

An object of a child's kind and name that belongs to someone else is a NameConflictError, and then nothing is written at all.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from octavo_operator import apply, contention, kube, mirror, names, replicas
from octavo_operator.desired.children import Child
from octavo_operator.events.notes import Write
from octavo_operator.kinds import Kind, Ref
from octavo_operator.observed import ChildView
from octavo_operator.service import Key, Service

logger = logging.getLogger(__name__)

Body = Mapping[str, Any]
Found = dict[Ref, dict[str, Any] | None]


@dataclasses.dataclass(frozen=True)
class Desired:
    """The children that a service shall have, in the order in which they are applied, and why as a sentence for the log.

    `served` are the optional kinds that the API server knew when they were made out.
    """

    children: Sequence[Child]
    served: Set[Kind]
    why: str


class NameConflictError(Exception):
    """An object of a child's kind and name belongs to someone else; it stays untouched."""


class Upkeep:
    """`children_of` gives the children of a service as they are watched, which may be a moment old."""

    def __init__(
        self, api: kube.Kube, copies: mirror.Mirror, children_of: Callable[[Key], tuple[ChildView, ...]]
    ) -> None:
        self._api = api
        self._mirror = copies
        self._children_of = children_of
        self.contests = contention.Contests(time.monotonic)

    async def find(self, key: Key, refs: Iterable[Ref]) -> Found:
        """The live objects of those names; None where there is none."""
        return {ref: await self._mirror.read(ref.kind, Key(key.namespace, ref.name)) for ref in refs}

    async def bring_about(self, wanted: Service, desired: Desired, found: Found) -> list[Write]:
        """Makes the children of `wanted` what is `desired`, and returns what was applied.

        `found` holds the live ones as far as known, and is updated.
        """
        refs = {child.ref for child in desired.children}
        found.update(await self.find(wanted.key, refs - found.keys()))
        for child in desired.children:
            _refuse_foreign(child.ref, found[child.ref], wanted)
        # First, so that no autoscaler is left that would undo what is applied next.
        await self._prune(wanted, refs, desired.served)
        kept = [await self._keep(wanted, child, found, desired.why) for child in desired.children]
        return [write for write in kept if write is not None]

    async def _prune(self, wanted: Service, desired: Set[Ref], served: Set[Kind]) -> None:
        self.contests.only(wanted.key, {str(ref) for ref in desired})
        for view in self._children_of(wanted.key):
            # A kind that is not served for a moment is not desired either: that is no reason to delete its objects.
            obsolete = view.ref.kind in served and view.ref not in desired and not view.ending
            if obsolete and view.controller == wanted.uid:
                logger.info("%s: deleting %s, which is no longer asked for", wanted.key, view.ref)
                await self._api.delete(view.ref.kind, Key(wanted.key.namespace, view.ref.name), view.uid)

    async def _keep(self, wanted: Service, child: Child, found: Found, why: str) -> Write | None:
        live, name = found[child.ref], str(child.ref)
        if live is not None and _going(live, wanted):
            found[child.ref] = None  # its end is an event, after which it is made anew
            self.contests.nothing_to_write(wanted.key, name)
            return None
        if child.held:
            return None
        paths = ["all of it"] if live is None else apply.differences(child.body, live)
        if not paths:
            self.contests.nothing_to_write(wanted.key, name)
        elif self.contests.may_write(wanted.key, name, child.body, about := _disturbance(child.ref, paths, live)):
            logger.info("%s: applying %s (%s); %s", wanted.key, name, ", ".join(paths[:5]), why)
            found[child.ref] = await self._apply(child, live)
            self.contests.wrote(wanted.key, name, child.body, about)
            return Write(child.ref, child.body, live, paths)
        else:
            logger.warning("%s: %s: waiting before it is put back", wanted.key, about)
        return None

    async def _apply(self, child: Child, live: Body | None) -> dict[str, Any]:
        """Applies `child`; where what others did to the ports of `live` makes that invalid, clears it away first."""
        if child.handover is not None:
            await self._hand_over(child, live, child.handover)
        try:
            return await self._mirror.apply(child.ref.kind, child.body)
        except kube.RejectedError as error:
            if live is None or not (repairs := apply.port_repairs(child.body, live)):
                raise
            logger.info("putting back ports of %s: %s", child.ref, error)
        await self._api.patch(child.ref.kind, live, repairs)
        return await self._mirror.apply(child.ref.kind, child.body)

    async def _hand_over(self, child: Child, live: Body | None, number: int) -> None:
        """Makes it so that the workload keeps `number` pods once ours does not say so any more."""
        if live is None:
            live = await self._mirror.apply(child.ref.kind, replicas.with_number(child.body, number))
        if replicas.owns_number(live):
            await self._mirror.apply(child.ref.kind, replicas.only_number(child.body, number), names.HANDOVER_MANAGER)


def _refuse_foreign(ref: Ref, live: Body | None, wanted: Service) -> None:
    if live is not None and not _ours(live, wanted):
        raise NameConflictError(
            f"a {ref.kind.kind} named {ref.name} exists and is not controlled by this {names.KIND}: "
            f"delete or rename it, or give this object another name"
        )


def _disturbance(ref: Ref, paths: list[str], live: Body | None) -> str:
    """What others did to a child, should it turn out to be done again and again."""
    if live is None:
        return f"the {ref.kind.kind} is deleted again and again"
    writer = apply.last_writer(live) or "an unknown writer"
    return f"in the {ref.kind.kind} {writer} changes {', '.join(paths[:5])} again and again"


def _ours(live: Body, wanted: Service) -> bool:
    return apply.controlled_by(live, wanted.uid) or apply.left_behind(live, wanted.key.name, wanted.uid)


def _going(live: Body, wanted: Service) -> bool:
    return "deletionTimestamp" in live["metadata"] or apply.left_behind(live, wanted.key.name, wanted.uid)
