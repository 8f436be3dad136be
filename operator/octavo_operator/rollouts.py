"""How the pods of a service are replaced, decided anew at each look from what is live: reads what that needs, and only then.

A service all of whose pods are of the wanted template and have their place needs no reads. Its Deployment then holds Surge, so that
`kubectl rollout restart` begins without a loss and without the operator.
"""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from octavo_operator import kinds, kube, standing
from octavo_operator.capacity import room
from octavo_operator.capacity.claims import exclusive
from octavo_operator.desired import leaderworkerset, pod
from octavo_operator.doubts import Doubts
from octavo_operator.inventory import Inventory
from octavo_operator.observed import PodView
from octavo_operator.plan import Plan
from octavo_operator.service import Key, Service
from octavo_operator.strategy import Choice, Outlook, Standing, choose

LOOK_AGAIN_S = 30.0
_NOT_ALLOWED = "the operator may not list the cluster's nodes and pods"
_ON_NO_NODE = "no node has what a pod asks for"

Body = Mapping[str, Any]


class Rollouts:
    """`pods_of` gives a service's pods as they are watched."""

    def __init__(self, api: kube.Kube, inventory: Inventory, pods_of: Callable[[Key], Sequence[PodView]]) -> None:
        self._api = api
        self._inventory = inventory
        self._pods_of = pods_of
        self._doubts = Doubts(time.monotonic)

    async def refine(self, service: Service, plan: Plan, live: Body | None) -> Plan:
        """`plan` with the strategy that `Auto` takes now, and what there is to say of room. `live` is the workload.

        Groups of several nodes are replaced by the LeaderWorkerSet's own rule, one group at a time.
        """
        template = pod.template(service)
        outlook = await self._outlook(service, plan, live, template)
        if outlook.is_quiet:
            self._doubts.forget(service.key)
        if service.rollout.strategy != "Auto" or service.workload_kind == kinds.LEADER_WORKER_SET:
            return dataclasses.replace(plan, outlook=outlook)
        choice = await self._choose(service, template, outlook, live)
        return dataclasses.replace(
            plan,
            strategy=choice.strategy,
            at_once=choice.at_once,
            reason=choice.reason,
            held=choice.held,
            outlook=outlook,
        )

    def look_again_s(self, plan: Plan) -> float | None:
        """Seconds until what is free may be counted anew; None where nothing waits for that."""
        return None if plan.outlook is None or plan.outlook.is_quiet else LOOK_AGAIN_S

    def forget(self, key: Key) -> None:
        self._doubts.forget(key)

    async def _outlook(self, service: Service, plan: Plan, live: Body | None, template: Body) -> Outlook:
        key, pods = service.key, self._pods_of(service.key)
        if service.workload_kind == kinds.LEADER_WORKER_SET:
            stand, failing = standing.marked(plan.replicas * service.parallelism.nodes, pods, _mark(service, plan)), ""
        else:
            stand, failing = await self._standing(key, plan.replicas, live, template, pods)
        outlook = Outlook(stand, failing=failing)
        if stand.missing == 0:
            return outlook
        free, unknown = await self._room(key, pods, template)
        if live is not None:
            refusal = standing.refusal(standing.failure(live), pods, stand)
            stand = self._doubts.weigh(key, _digest(template), stand, refusal, free is None or free.slots() > 0)
        return dataclasses.replace(outlook, standing=stand, room=free, unknown=unknown)

    async def _standing(
        self, key: Key, wanted: int, live: Body | None, template: Body, pods: Sequence[PodView]
    ) -> tuple[Standing, str]:
        """Where the pods stand, and what the new ones fail of."""
        if live is None:
            return standing.all_new(wanted, pods), ""
        if not standing.holds(live, template):
            return standing.all_old(wanted, pods), ""
        if standing.is_uniform(live, pods):
            return standing.all_new(wanted, pods), standing.failing(pods, None)
        selector = ",".join(f"{label}={value}" for label, value in live["spec"]["selector"]["matchLabels"].items())
        sets = [each async for each in self._api.listed(kinds.REPLICA_SET, key.namespace, selector)]
        current = standing.current(live, sets)
        if current is None:
            return standing.all_old(wanted, pods), ""
        return standing.mixed(wanted, pods, current), standing.failing(pods, current)

    async def _choose(self, service: Service, template: Body, outlook: Outlook, live: Body | None) -> Choice:
        if outlook.standing.old:
            alone = await self._exclusive(service, template, outlook.room)
            return choose(outlook.standing, outlook.room, outlook.unknown, service.device, alone)
        # While the last old pods end, Recreate still keeps new ones from starting beside them.
        if outlook.standing.ending and live is not None and standing.applied_strategy(live) == "Recreate":
            return Choice("Recreate", "Recreate: the old pods are ending")
        return choose(outlook.standing, outlook.room, outlook.unknown, service.device)

    async def _room(self, key: Key, pods: Sequence[PodView], template: Body) -> tuple[room.Room | None, str]:
        """The room for one more pod, or None and why it is not known."""
        census = await self._inventory.census()
        if census is None:
            return None, _NOT_ALLOWED
        own = [pod.place for pod in pods if pod.active and pod.place]
        found = room.room(census, key, own, template["spec"])
        return found, "" if found else _ON_NO_NODE

    async def _exclusive(self, service: Service, template: Body, free: room.Room | None) -> str:
        """What keeps old and new pods from running side by side: a claim that only one of them can mount."""
        for name in sorted(_claims(template["spec"])):
            claim = await self._api.get(kinds.CLAIM, Key(service.key.namespace, name))
            if claim and (why := exclusive(claim, only_node=free is not None and len(free.free) == 1)):
                return why
        return ""


def _claims(pod: Body) -> set[str]:
    volumes = pod.get("volumes", ())
    return {each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each}


def _mark(service: Service, plan: Plan) -> str:
    """The revision that the pods of the wanted groups are marked with."""
    return leaderworkerset.revision_of(leaderworkerset.leader_worker_set(service, plan))


def _digest(template: Body) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()
