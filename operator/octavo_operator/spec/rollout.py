"""`spec.rollout`: how pods are replaced and stopped. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

Strategy = Literal["Auto", "Surge", "OneByOne", "Recreate"]


@dataclasses.dataclass(frozen=True)
class Rollout:
    strategy: Strategy = "Auto"
    drain_timeout_s: int = 60


def parse(spec: Mapping[str, Any]) -> Rollout:
    return Rollout(strategy=spec.get("strategy", "Auto"), drain_timeout_s=spec.get("drainTimeoutSeconds", 60))
