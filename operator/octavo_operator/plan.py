"""What the next step of a rollout is, and why, as a value. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from octavo_operator.replicas import replicas
from octavo_operator.service import Service

Strategy = Literal["Surge", "OneByOne", "Recreate"]


@dataclasses.dataclass(frozen=True)
class Plan:
    """How many pods there shall be and how they are replaced; `reason` is the sentence for logs.

    `handed_over`: `replicas` is what an autoscaler has set, or begins with, and is not applied.
    """

    replicas: int
    strategy: Strategy
    reason: str
    handed_over: bool = False


def plan(service: Service, workload: Mapping[str, Any] | None = None) -> Plan:
    """`workload` is the live one, None where there is none yet."""
    strategy, reason = _strategy(service)
    count = replicas(service, workload)
    return Plan(count.number, strategy, f"{strategy}: {reason}", handed_over=count.handed_over)


def _strategy(service: Service) -> tuple[Strategy, str]:
    if service.rollout.strategy != "Auto":
        return service.rollout.strategy, "spec.rollout.strategy asks for it"
    if service.device == "cpu":
        return "Surge", "CPU pods rarely lack room for one more"
    return "OneByOne", "a new pod would wait for GPUs that only an old one frees"
