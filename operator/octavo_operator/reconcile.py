"""One InferenceService, from what the API server says now to what it shall be. Level-triggered: no step asks what happened.

`Reconciler.reconcile` is the story; each step that decides is a pure function elsewhere.
"""

import datetime
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from octavo_operator import apply, contention, kube, names, observed, plan, service, status
from octavo_operator.desired.deployment import deployment
from octavo_operator.desired.service import cluster_service

logger = logging.getLogger(__name__)

Body = Mapping[str, Any]
_CHILDREN = (kube.DEPLOYMENT, kube.SERVICE)


class NameConflictError(Exception):
    """An object of a child's kind and name belongs to someone else; it stays untouched."""


class Reconciler:
    """`pods_of` gives the pods of a service as they are watched; `default_image` is the runtime's where the spec names none."""

    def __init__(
        self,
        api: kube.Kube,
        pods_of: Callable[[service.Key], tuple[observed.PodView, ...]],
        default_image: str | None,
    ) -> None:
        self._api = api
        self._pods_of = pods_of
        self._default_image = default_image
        self._contests = contention.Contests(time.monotonic)

    async def reconcile(self, key: service.Key) -> float | None:
        """Brings children and status of `key` to what its spec says.

        Returns the seconds after which to look again without an event, where others keep changing a child; else None. Raises
        KubeError or NameConflictError where it has to be tried again without any event that tells.
        """
        live = await self._api.get(kube.INFERENCE_SERVICE, key)
        if live is None or "deletionTimestamp" in live["metadata"]:
            self._contests.forget(key)
            return None
        children = {kind.kind: await self._api.get(kind, key) for kind in _CHILDREN}
        try:
            wanted = service.parse(live, self._default_image)
            await self._check_claim(wanted)
            step = plan.plan(wanted)
            await self._bring_about(wanted, step, children)
        except service.SpecError as error:
            await self._stall(live, children, status.Problem(error.reason, str(error)))
        except NameConflictError as error:
            await self._stall(live, children, status.Problem("NameConflict", str(error), spec_valid=True))
            raise
        except kube.RejectedError as error:
            await self._stall(live, children, status.Problem("Rejected", f"the API server refuses a child: {error}"))
        except kube.DeniedError as error:
            await self._write_status(live, status.denied(live, str(error), self._observe(key, children)))
            raise
        else:
            contested = self._contests.complaint(key)
            await self._write_status(live, status.serving(wanted, step, self._observe(key, children), contested))
            return self._contests.look_again_s(key)
        return None

    async def _check_claim(self, wanted: service.Service) -> None:
        if wanted.source.claim is not None:
            name = service.Key(wanted.key.namespace, wanted.source.claim)
            service.check_claim(wanted, await self._api.get(kube.CLAIM, name))

    async def _bring_about(
        self, wanted: service.Service, step: plan.Plan, children: dict[str, dict[str, Any] | None]
    ) -> None:
        """Applies the children that differ; `children` holds the live ones and is updated."""
        desired = {kube.DEPLOYMENT: deployment(wanted, step), kube.SERVICE: cluster_service(wanted)}
        for kind in desired:
            _refuse_foreign(kind, children[kind.kind], wanted)
        for kind, body in desired.items():
            found = children[kind.kind]
            if found is not None and _going(found, wanted):
                children[kind.kind] = None  # its end is an event, after which it is made anew
                self._contests.nothing_to_write(wanted.key, kind.kind)
                continue
            paths = ["all of it"] if found is None else apply.differences(body, found)
            if not paths:
                self._contests.nothing_to_write(wanted.key, kind.kind)
            elif self._contests.may_write(wanted.key, kind.kind, body, about := _disturbance(kind, paths, found)):
                logger.info("%s: applying %s (%s); %s", wanted.key, kind.kind, ", ".join(paths[:5]), step.reason)
                children[kind.kind] = await self._apply(kind, body, found)
                self._contests.wrote(wanted.key, kind.kind, body, about)
            else:
                logger.warning("%s: %s: waiting before it is put back", wanted.key, about)

    async def _apply(self, kind: kube.Kind, body: Body, found: Body | None) -> dict[str, Any]:
        """Applies `body`; where what others did to the ports of `found` makes that invalid, clears it away first."""
        try:
            return await self._api.apply(kind, body)
        except kube.RejectedError as error:
            if found is None or not (repairs := apply.port_repairs(body, found)):
                raise
            logger.info("%s: putting back ports of %s: %s", body["metadata"]["name"], kind.kind, error)
        await self._api.patch(kind, found, repairs)
        return await self._api.apply(kind, body)

    def _observe(self, key: service.Key, children: Mapping[str, Body | None]) -> observed.Observed:
        found = children[kube.DEPLOYMENT.kind]
        return observed.Observed(observed.deployment_view(found) if found else None, self._pods_of(key))

    async def _stall(self, live: Body, children: Mapping[str, Body | None], problem: status.Problem) -> None:
        key = service.Key(live["metadata"]["namespace"], live["metadata"]["name"])
        ours = {
            kind: child if child and apply.controlled_by(child, live["metadata"]["uid"]) else None
            for kind, child in children.items()
        }
        await self._write_status(live, status.stalled(live, problem, self._observe(key, ours)))

    async def _write_status(self, live: Body, desired: dict[str, Any]) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        changed = status.merged(live.get("status", {}), desired, now)
        if changed is not None:
            await self._api.apply_status(kube.INFERENCE_SERVICE, live, changed)


def _refuse_foreign(kind: kube.Kind, found: Body | None, wanted: service.Service) -> None:
    if found is not None and not _ours(found, wanted):
        raise NameConflictError(
            f"a {kind.kind} named {wanted.key.name} exists and is not controlled by this {names.KIND}: "
            f"delete or rename it, or give this object another name"
        )


def _disturbance(kind: kube.Kind, paths: list[str], found: Body | None) -> str:
    """What others did to a child, should it turn out to be done again and again."""
    if found is None:
        return f"the {kind.kind} is deleted again and again"
    writer = apply.last_writer(found) or "an unknown writer"
    return f"in the {kind.kind} {writer} changes {', '.join(paths[:5])} again and again"


def _ours(found: Body, wanted: service.Service) -> bool:
    return apply.controlled_by(found, wanted.uid) or apply.left_behind(found, wanted.key.name, wanted.uid)


def _going(found: Body, wanted: service.Service) -> bool:
    return "deletionTimestamp" in found["metadata"] or apply.left_behind(found, wanted.key.name, wanted.uid)
