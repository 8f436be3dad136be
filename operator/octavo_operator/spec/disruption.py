"""`spec.disruption`: how many pods others may take at once, and how pods spread over failure domains."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

Unsatisfiable = Literal["ScheduleAnyway", "DoNotSchedule"]


@dataclasses.dataclass(frozen=True)
class Spread:
    """Replicas of a service differ by at most `max_skew` between any two domains of `topology_key`."""

    topology_key: str
    max_skew: int = 1
    when_unsatisfiable: Unsatisfiable = "ScheduleAnyway"


@dataclasses.dataclass(frozen=True)
class Disruption:
    """`max_unavailable` counts replicas (with several nodes: groups of pods)."""

    max_unavailable: int = 1
    spread: tuple[Spread, ...] = ()


def parse(spec: Mapping[str, Any]) -> Disruption:
    """Of the `disruption` block of a spec; of an empty one, the defaults."""
    return Disruption(
        max_unavailable=spec.get("maxUnavailable", 1),
        spread=tuple(_spread(item) for item in spec.get("topologySpread", ())),
    )


def _spread(item: Mapping[str, Any]) -> Spread:
    return Spread(
        topology_key=item["topologyKey"],
        max_skew=item.get("maxSkew", 1),
        when_unsatisfiable=item.get("whenUnsatisfiable", "ScheduleAnyway"),
    )
