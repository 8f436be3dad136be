"""`spec.routing`: how requests from outside come to a service: an InferencePool, an HTTPRoute."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

FailureMode = Literal["FailOpen", "FailClose"]


@dataclasses.dataclass(frozen=True)
class EndpointPicker:
    """A Service of the service's namespace that speaks the endpoint picker protocol on `port`."""

    name: str
    port: int = 9002
    failure_mode: FailureMode = "FailOpen"


@dataclasses.dataclass(frozen=True)
class Gateway:
    """A parent of the route; None leaves the choice to the gateway's own rules."""

    name: str
    namespace: str | None = None
    section_name: str | None = None
    port: int | None = None


@dataclasses.dataclass(frozen=True)
class Route:
    gateways: tuple[Gateway, ...]
    hostnames: tuple[str, ...] = ()
    request_timeout_s: int | None = None


@dataclasses.dataclass(frozen=True)
class Routing:
    """`picker` asks for an InferencePool, `route` for an HTTPRoute; the route leads to the pool where there is one."""

    picker: EndpointPicker | None = None
    route: Route | None = None


def parse(spec: Mapping[str, Any]) -> Routing:
    """Of the `routing` block of a spec; an empty one asks for nothing."""
    pool = spec.get("inferencePool", {})
    return Routing(
        picker=_picker(pool["endpointPickerRef"]) if pool.get("enabled") else None,
        route=_route(spec["httpRoute"]) if "httpRoute" in spec else None,
    )


def _picker(spec: Mapping[str, Any]) -> EndpointPicker:
    return EndpointPicker(spec["name"], spec.get("port", 9002), spec.get("failureMode", "FailOpen"))


def _route(spec: Mapping[str, Any]) -> Route:
    return Route(
        gateways=tuple(
            Gateway(item["name"], item.get("namespace"), item.get("sectionName"), item.get("port"))
            for item in spec["parentRefs"]
        ),
        hostnames=tuple(spec.get("hostnames", ())),
        request_timeout_s=spec.get("requestTimeoutSeconds"),
    )
