"""`spec.podTemplate`: what is merged into the pod template that the operator makes. Pure.

Its `spec` is passed through as the API server has it, but for what that would rewrite, so that there would be a difference
for ever: nulls are left out, quantities are canonical, and ports have a protocol.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator.spec.amounts import amount

# Fields of a pod that hold quantities, and those that hold maps of them.
_QUANTITIES = {"divisor", "sizeLimit"}
_QUANTITY_MAPS = {"limits", "overhead", "requests"}


@dataclasses.dataclass(frozen=True)
class PodTemplate:
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    spec: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def parse(spec: Mapping[str, Any]) -> PodTemplate:
    pod: dict[str, Any] = _canonical(spec.get("spec", {}), "spec.podTemplate.spec")
    return PodTemplate(labels=spec.get("labels", {}), annotations=spec.get("annotations", {}), spec=pod)


def _canonical(value: Any, path: str) -> Any:
    if isinstance(value, list):
        return [_canonical(item, f"{path}[{index}]") for index, item in enumerate(value) if item is not None]
    if not isinstance(value, Mapping):
        return value
    return {name: _field(name, below, f"{path}.{name}") for name, below in value.items() if below is not None}


def _field(name: str, value: Any, path: str) -> Any:
    if name == "ports" and isinstance(value, list):
        # Part of what names a port, so it must be there before the API server fills it in.
        return [{"protocol": "TCP", **port} for port in _canonical(value, path) if isinstance(port, Mapping)]
    if name in _QUANTITIES and isinstance(value, str | int):
        return amount(path, value)
    if name in _QUANTITY_MAPS and isinstance(value, Mapping):
        return {key: amount(f"{path}.{key}", below) for key, below in value.items()}
    return _canonical(value, path)
