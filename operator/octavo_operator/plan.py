"""What the next step of a rollout is, and why, as a value. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator.replicas import replicas
from octavo_operator.service import Service
from octavo_operator.strategy import Name, Outlook


@dataclasses.dataclass(frozen=True)
class Plan:
    """How many pods there shall be and how they are replaced; `reason` is the sentence for logs and the condition.

    `handed_over`: `replicas` is what an autoscaler has set, or begins with, and is not applied. OneByOne lets `at_once` old pods be
    missing; `held`: the rollout waits for what the operator cannot bring about. `outlook` is what was known of pods and room, None
    where nobody looked.
    """

    replicas: int
    strategy: Name
    reason: str
    handed_over: bool = False
    at_once: int = 1
    held: bool = False
    outlook: Outlook | None = None


def plan(service: Service, workload: Mapping[str, Any] | None = None) -> Plan:
    """`workload` is the live one, None where there is none yet."""
    strategy, reason = _strategy(service)
    count = replicas(service, workload)
    return Plan(count.number, strategy, f"{strategy}: {reason}", handed_over=count.handed_over)


def _strategy(service: Service) -> tuple[Name, str]:
    if service.rollout.strategy != "Auto":
        return service.rollout.strategy, "spec.rollout.strategy asks for it"
    if service.device == "cpu":
        return "Surge", "CPU pods rarely lack room for one more"
    return "OneByOne", "a new pod would wait for GPUs that only an old one frees"
