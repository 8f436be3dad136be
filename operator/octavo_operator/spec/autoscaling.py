"""`spec.autoscaling`: between how many pods an autoscaler chooses, and by what. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from octavo_operator.spec.amounts import amount

Provider = Literal["hpa", "keda"]
MetricType = Literal["BlockUtilization", "QueueLength", "PredictedDeficit"]

# The field that holds a metric's target, and the default of those that have one.
TARGET_FIELDS: Mapping[MetricType, str] = {
    "BlockUtilization": "targetPercent",
    "QueueLength": "targetPerReplica",
    "PredictedDeficit": "targetBlocksPerReplica",
}
DEFAULT_TARGETS: Mapping[MetricType, int] = {"BlockUtilization": 70, "QueueLength": 4}
# What the pods export for a metric, each only while it takes requests.
SERIES: Mapping[MetricType, str] = {
    "BlockUtilization": "octavo_kv_block_utilization",
    "QueueLength": "octavo_requests_waiting",
    "PredictedDeficit": "octavo_predicted_deficit_blocks",
}


@dataclasses.dataclass(frozen=True)
class Metric:
    """`target` is per pod: a percentage, a number of requests, or a number of KV blocks."""

    type: MetricType
    target: int

    @property
    def series(self) -> str:
        return SERIES[self.type]


DEFAULT_METRICS = (Metric("BlockUtilization", DEFAULT_TARGETS["BlockUtilization"]),)


@dataclasses.dataclass(frozen=True)
class Autoscaling:
    """`behavior` is that of autoscaling/v2, with canonical quantities. The metric that asks for most pods wins."""

    min_replicas: int
    max_replicas: int
    provider: Provider = "hpa"
    metrics: tuple[Metric, ...] = DEFAULT_METRICS
    behavior: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


def parse(spec: Mapping[str, Any] | None) -> Autoscaling | None:
    """None where the number of pods is the user's. Raises SpecError."""
    if spec is None:
        return None
    return Autoscaling(
        min_replicas=spec.get("minReplicas", 1),
        max_replicas=spec["maxReplicas"],
        provider=spec.get("provider", "hpa"),
        metrics=tuple(_metric(metric) for metric in spec.get("metrics", ())) or DEFAULT_METRICS,
        behavior={way: _rules(way, rules) for way, rules in spec.get("behavior", {}).items()},
    )


def _metric(spec: Mapping[str, Any]) -> Metric:
    kind: MetricType = spec["type"]
    # Where there is no default, the schema has required the field.
    return Metric(kind, spec.get(TARGET_FIELDS[kind], DEFAULT_TARGETS.get(kind, 1)))


def _rules(way: str, rules: Mapping[str, Any]) -> dict[str, Any]:
    tolerance = amount(f"spec.autoscaling.behavior.{way}.tolerance", rules.get("tolerance"))
    return {**rules, **({} if tolerance is None else {"tolerance": tolerance})}
