"""How many more pods of a kind fit on a cluster's nodes. Pure.

A `Census` is what was counted of all nodes and pods at one time, cheap to keep: sums by node, and the pods of our own services,
whose newer state is known from the watch and put in their place.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from octavo_operator import names
from octavo_operator.capacity import amounts
from octavo_operator.capacity.amounts import Amounts
from octavo_operator.capacity.nodes import Node, objection
from octavo_operator.service import Key

_SHOWN_NODES = 3


@dataclasses.dataclass(frozen=True)
class Tenant:
    """A pod that has a place: it holds `amounts` of `node`."""

    node: str
    amounts: Amounts


@dataclasses.dataclass(frozen=True)
class Census:
    """`held` is what all pods hold, by node; `of_services` the pods among them that are a service's."""

    nodes: tuple[Node, ...] = ()
    held: Mapping[str, Amounts] = dataclasses.field(default_factory=dict)
    of_services: Mapping[Key, tuple[Tenant, ...]] = dataclasses.field(default_factory=dict)


class Count:
    """Adds up a census pod by pod, so that no page of them has to be kept."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, int]] = {}
        self._of_services: dict[Key, list[Tenant]] = {}

    def add(self, pod: Mapping[str, Any]) -> None:
        found = tenant(pod)
        if found is None:
            return
        held = self._held.setdefault(found.node, {})
        for resource, amount in found.amounts.items():
            held[resource] = held.get(resource, 0) + amount
        metadata = pod["metadata"]
        if service := metadata.get("labels", {}).get(names.SERVICE_LABEL):
            self._of_services.setdefault(Key(metadata["namespace"], service), []).append(found)

    def census(self, nodes: Iterable[Node]) -> Census:
        return Census(tuple(nodes), self._held, {key: tuple(pods) for key, pods in self._of_services.items()})


def tenant(pod: Mapping[str, Any]) -> Tenant | None:
    """What a live pod holds of which node; None where it has none yet or none any more."""
    node = pod["spec"].get("nodeName")
    if not node or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return None
    return Tenant(node, amounts.of_pod(pod["spec"]))


@dataclasses.dataclass(frozen=True)
class Room:
    """What is `free` for pods that ask for `demand`, by node, of what is `allocatable`; only nodes that are open to such pods.

    What the service's own ending pods hold counts as free, since it soon is. `objections` counts the other nodes by what keeps
    the pods away.
    """

    demand: Amounts
    free: Mapping[str, Amounts]
    allocatable: Mapping[str, Amounts] = dataclasses.field(default_factory=dict)
    objections: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def slots(self, gone: Iterable[Tenant] = ()) -> int:
        """How many more pods fit, once the pods `gone` are."""
        freed = _by_node(gone)
        return sum(_fitting(self.demand, free, freed.get(node, {})) for node, free in self.free.items())

    def scarce(self) -> str:
        """The resource of the demand to speak of: the one that keeps most nodes from one more pod; a GPU among equals."""

        def lacking(resource: str) -> tuple[int, bool, bool, str]:
            short = sum(free.get(resource, 0) < self.demand[resource] for free in self.free.values())
            return short, "/" in resource, resource != amounts.PODS, resource

        return max(self.demand, key=lacking)

    def need(self) -> str:
        """What one pod asks for of the scarce resource, such as `2 nvidia.com/gpu`."""
        resource = self.scarce()
        return f"{amounts.text(resource, self.demand[resource])} {resource}"

    def told(self) -> str:
        """Where how much is free, for a sentence."""
        resource = self.scarce()
        if not self.free:
            return "no node is open to such pods" + self._objections()
        most = sorted(self.free, key=lambda node: (-self.free[node].get(resource, 0), node))
        shown = [f"{node} has {self._free_text(node, resource)} free" for node in most[:_SHOWN_NODES]]
        more = len(most) - _SHOWN_NODES
        return ", ".join(shown) + (f", {more} more nodes no more" if more > 0 else "")

    def _free_text(self, node: str, resource: str) -> str:
        free = amounts.text(resource, max(0, self.free[node].get(resource, 0)))
        whole = self.allocatable.get(node, {}).get(resource)
        return f"{free} of {amounts.text(resource, whole)} {resource}" if whole is not None else f"{free} {resource}"

    def _objections(self) -> str:
        told = ", ".join(f"{count} {why}" for why, count in sorted(self.objections.items()))
        return f" ({told})" if told else ""


def room(census: Census, key: Key, own: Iterable[Tenant], pod: Mapping[str, Any]) -> Room | None:
    """The room for pods with the spec `pod` of the service `key`, whose placed pods that do not end are `own`.

    None where no node has a resource that they ask for: it may come with a node that an autoscaler adds, so nothing is known.
    """
    demand = amounts.of_pod(pod)
    if any(all(resource not in node.allocatable for node in census.nodes) for resource in demand):
        return None
    counted = [Tenant(one.node, _negative(one.amounts)) for one in census.of_services.get(key, ())]
    held = _by_node([*counted, *own])
    free, allocatable, objections = {}, {}, dict[str, int]()
    for node in census.nodes:
        if why := objection(node, pod):
            objections[why] = objections.get(why, 0) + 1
            continue
        others, ours = census.held.get(node.name, {}), held.get(node.name, {})
        allocatable[node.name] = {resource: node.allocatable.get(resource, 0) for resource in demand}
        free[node.name] = {
            resource: node.allocatable.get(resource, 0) - others.get(resource, 0) - ours.get(resource, 0)
            for resource in demand
        }
    return Room(demand, free, allocatable, objections)


def _fitting(demand: Amounts, free: Amounts, freed: Amounts) -> int:
    counts = [
        (free.get(resource, 0) + freed.get(resource, 0)) // amount for resource, amount in demand.items() if amount > 0
    ]
    return max(0, min(counts))


def _negative(of: Amounts) -> dict[str, int]:
    return {resource: -amount for resource, amount in of.items()}


def _by_node(tenants: Iterable[Tenant]) -> dict[str, dict[str, int]]:
    held: dict[str, dict[str, int]] = {}
    for one in tenants:
        held[one.node] = amounts.total([held.get(one.node, {}), one.amounts])
    return held
