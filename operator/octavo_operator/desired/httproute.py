"""The HTTPRoute of a service: from gateways to its InferencePool, or to its Service where there is no pool.

What the API would default inside lists is written out: lists are compared whole.
"""

from typing import Any

from octavo_operator import kinds, names
from octavo_operator.desired import inferencepool, labels
from octavo_operator.service import Service
from octavo_operator.spec.routing import Gateway, Route

COMPONENT = "route"


def http_route(service: Service) -> dict[str, Any] | None:
    """The route that spec.routing.httpRoute asks for, else None."""
    route = service.routing.route
    if route is None:
        return None
    spec: dict[str, Any] = {
        "parentRefs": [_parent(gateway) for gateway in route.gateways],
        "rules": [_rule(service, route)],
    }
    if route.hostnames:
        spec["hostnames"] = list(route.hostnames)
    return {
        "apiVersion": kinds.HTTP_ROUTE.api_version,
        "kind": kinds.HTTP_ROUTE.kind,
        "metadata": labels.child_metadata(service, COMPONENT),
        "spec": spec,
    }


def _parent(gateway: Gateway) -> dict[str, Any]:
    chosen = {"namespace": gateway.namespace, "sectionName": gateway.section_name, "port": gateway.port}
    given = {field: value for field, value in chosen.items() if value is not None}
    return {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": gateway.name, **given}


def _rule(service: Service, route: Route) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "backendRefs": [_backend(service)],
    }
    if route.request_timeout_s is not None:
        rule["timeouts"] = {"request": f"{route.request_timeout_s}s"}
    return rule


def _backend(service: Service) -> dict[str, Any]:
    if service.routing.picker is not None:
        name, kind = labels.child_name(service.key, inferencepool.COMPONENT), kinds.INFERENCE_POOL
        # The port of a pool is the pool's own matter.
        return {"group": kind.group, "kind": kind.kind, "name": name, "weight": 1}
    return {"group": "", "kind": "Service", "name": service.key.name, "port": names.SERVICE_PORT, "weight": 1}
