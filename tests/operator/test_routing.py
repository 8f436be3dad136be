"""The condition RoutingReady, from what gateways wrote to the pool and the route."""

from typing import Any

import pytest

from octavo_operator import kinds, routing
from octavo_operator.conditions import Condition
from octavo_operator.observed import Observed
from tests.operator.samples import parsed

PICKER = {"enabled": True, "endpointPickerRef": {"name": "epp"}}
ROUTE = {"parentRefs": [{"name": "edge"}]}
SERVED = frozenset({kinds.INFERENCE_POOL, kinds.HTTP_ROUTE})


def live(*parents: dict[str, Any], name: str = "chat-pool") -> dict[str, Any]:
    return {"metadata": {"name": name, "generation": 2}, "status": {"parents": list(parents)}}


def parent(generation: int = 2, kind: str = "Gateway", **said: str) -> dict[str, Any]:
    conditions = [
        {"type": what, "status": status, "reason": f"Because{status}", "message": "m", "observedGeneration": generation}
        for what, status in {"Accepted": "True", "ResolvedRefs": "True", **said}.items()
    ]
    return {"parentRef": {"name": "edge", "kind": kind}, "conditions": conditions}


def judged(
    pool: Any = None, route: Any = None, served: frozenset[kinds.Kind] = SERVED, **asked: Any
) -> Condition | None:
    found = {kinds.Ref(kinds.INFERENCE_POOL, "chat-pool"): pool, kinds.Ref(kinds.HTTP_ROUTE, "chat-route"): route}
    children = {ref: body for ref, body in found.items() if body is not None}
    return routing.condition(parsed(routing=asked), Observed(children=children, served=served))


def test_is_absent_unless_asked_for() -> None:
    assert judged() is None
    assert judged(inferencePool={**PICKER, "enabled": False}) is None


def test_is_true_once_every_gateway_has_accepted_both() -> None:
    found = judged(live(parent()), live(parent()), inferencePool=PICKER, httpRoute=ROUTE)
    assert found == Condition(
        "RoutingReady", "True", "Accepted", "every gateway accepts the InferencePool and HTTPRoute"
    )


@pytest.mark.parametrize(
    ("pool", "reason", "says"),
    [
        pytest.param(None, "Pending", "not there yet", id="not made yet"),
        pytest.param(live(), "NoGateway", "no gateway has taken up the InferencePool chat-pool", id="no gateway"),
        pytest.param(live(parent(kind="Status")), "NoGateway", "no gateway", id="the CRD's placeholder"),
        pytest.param(live(parent(generation=1)), "Pending", "gateway edge has not judged", id="judged an older one"),
        pytest.param(live({"parentRef": {"name": "edge"}}), "Pending", "has not judged", id="says nothing"),
        pytest.param(live(parent(Accepted="False")), "BecauseFalse", "Accepted is False: m", id="refused"),
        pytest.param(live(parent(), parent(ResolvedRefs="False")), "BecauseFalse", "ResolvedRefs", id="by the second"),
    ],
)
def test_names_what_a_pool_waits_for(pool: Any, reason: str, says: str) -> None:
    found = judged(pool, inferencePool=PICKER)
    assert found is not None
    assert (found.status, found.reason) == ("False", reason)
    assert says in found.message


def test_a_gateway_that_says_nothing_of_the_route_is_named() -> None:
    asked = {"parentRefs": [{"name": "edge"}, {"name": "inner"}]}
    found = judged(route=live(parent()), httpRoute=asked)
    assert found is not None
    assert "gateway inner has not taken up the HTTPRoute" in found.message


@pytest.mark.parametrize(
    ("served", "asked", "reason"),
    [
        pytest.param({kinds.HTTP_ROUTE}, {"inferencePool": PICKER}, "InferencePoolNotServed", id="pool"),
        pytest.param({kinds.INFERENCE_POOL}, {"httpRoute": ROUTE}, "HTTPRouteNotServed", id="route"),
        pytest.param(
            {kinds.INFERENCE_POOL}, {"inferencePool": PICKER, "httpRoute": ROUTE}, "HTTPRouteNotServed", id="one of two"
        ),
    ],
)
def test_a_kind_that_is_not_served_says_what_to_install(
    served: set[kinds.Kind], asked: dict[str, Any], reason: str
) -> None:
    found = judged(live(parent()), live(parent()), frozenset(served), **asked)
    assert found is not None
    assert (found.status, found.reason) == ("False", reason)
    assert "install the CRDs of the Gateway API" in found.message


def test_all_kinds_that_are_not_served_are_named() -> None:
    found = judged(served=frozenset(), inferencePool=PICKER, httpRoute=ROUTE)
    assert found == Condition(
        "RoutingReady",
        "False",
        "InferencePoolNotServed",
        "the API server knows no InferencePool: install the CRDs of the Gateway API Inference Extension; "
        "the API server knows no HTTPRoute: install the CRDs of the Gateway API",
    )
