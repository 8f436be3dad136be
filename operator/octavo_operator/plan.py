"""What the next step of a rollout is, and why, as a value. Pure."""

import dataclasses
from typing import Literal

from octavo_operator.service import Service


@dataclasses.dataclass(frozen=True)
class Plan:
    """How many pods there shall be and how they are replaced; `reason` is the sentence for logs."""

    replicas: int
    strategy: Literal["Surge", "OneByOne", "Recreate"]
    reason: str


def plan(service: Service) -> Plan:
    replicas = 0 if service.suspend else service.replicas
    if service.rollout.strategy != "Auto":
        return Plan(
            replicas, service.rollout.strategy, f"{service.rollout.strategy}: spec.rollout.strategy asks for it"
        )
    if service.device == "cpu":
        return Plan(replicas, "Surge", "Surge: CPU pods rarely lack room for one more")
    return Plan(replicas, "OneByOne", "OneByOne: a new pod would wait for GPUs that only an old one frees")
