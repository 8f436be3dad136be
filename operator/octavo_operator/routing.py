"""The condition RoutingReady: whether gateways lead requests to a service, from what they wrote to its pool and route. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from octavo_operator import kinds
from octavo_operator.conditions import Condition
from octavo_operator.kinds import Kind
from octavo_operator.observed import Observed
from octavo_operator.service import Service

TYPE = "RoutingReady"
_INSTALL = {
    kinds.INFERENCE_POOL: "install the CRDs of the Gateway API Inference Extension",
    kinds.HTTP_ROUTE: "install the CRDs of the Gateway API",
}
Body = Mapping[str, Any]


def condition(service: Service, observed: Observed) -> Condition | None:
    """None where spec.routing asks for nothing.

    An InferencePool alone is led to by no gateway that we know of until one takes it up; a route is accepted by each gateway.
    """
    asked = {kinds.INFERENCE_POOL: service.routing.picker, kinds.HTTP_ROUTE: service.routing.route}
    wanted = [kind for kind, spec in asked.items() if spec is not None]
    if not wanted:
        return None
    if lacking := [kind for kind in wanted if kind not in observed.served]:
        text = "; ".join(f"the API server knows no {kind.kind}: {_INSTALL[kind]}" for kind in lacking)
        return Condition.of(TYPE, False, f"{lacking[0].kind}NotServed", text)
    live = {ref.kind: body for ref, body in observed.children.items()}
    for kind in wanted:
        if (obstacle := _obstacle(kind, live.get(kind), _gateways(service, kind))) is not None:
            return Condition.of(TYPE, False, *obstacle)
    both = " and ".join(kind.kind for kind in wanted)
    return Condition.of(TYPE, True, "Accepted", f"every gateway accepts the {both}")


def _gateways(service: Service, kind: Kind) -> list[str]:
    """Names of the gateways that have to accept it."""
    route = service.routing.route
    return [gateway.name for gateway in route.gateways] if route and kind == kinds.HTTP_ROUTE else []


def _obstacle(kind: Kind, live: Body | None, gateways: Sequence[str]) -> tuple[str, str] | None:
    """Reason and message of the first thing in the way; None where there is none."""
    if live is None:
        return "Pending", f"the {kind.kind} is not there yet"
    parents = [parent for parent in live.get("status", {}).get("parents", ()) if _is_gateway(parent)]
    if not parents:
        return "NoGateway", f"no gateway has taken up the {kind.kind} {live['metadata']['name']} yet"
    heard = {parent["parentRef"]["name"] for parent in parents}
    if silent := [name for name in gateways if name not in heard]:
        return "NoGateway", f"gateway {silent[0]} has not taken up the {kind.kind} yet: is there one of this name?"
    return next(_refusals(kind.kind, live, parents), None)


def _refusals(kind: str, live: Body, parents: Sequence[Body]) -> Iterator[tuple[str, str]]:
    for parent in parents:
        who = f"gateway {parent['parentRef']['name']}"
        found = {condition["type"]: condition for condition in parent.get("conditions", ())}
        for needed in ("Accepted", "ResolvedRefs"):
            entry = found.get(needed)
            if entry is None or entry.get("observedGeneration", 0) < live["metadata"]["generation"]:
                yield "Pending", f"{who} has not judged the newest {kind} yet ({needed})"
            elif entry["status"] != "True":
                yield entry["reason"], f"{who}: {kind} {needed} is {entry['status']}: {entry.get('message', '')}"


def _is_gateway(parent: Body) -> bool:
    """Early versions of the InferencePool's CRD put a placeholder of this kind into every new pool."""
    return bool(parent["parentRef"].get("kind", "Gateway") != "Status")
