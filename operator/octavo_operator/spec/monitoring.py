"""`spec.monitoring`: what tells Prometheus of the pods. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Monitoring:
    """`labels` are put on the PodMonitor and the PrometheusRule, since a Prometheus may select them by labels."""

    pod_monitor: bool = False
    prometheus_rule: bool = False
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)


def parse(spec: Mapping[str, Any]) -> Monitoring:
    return Monitoring(
        pod_monitor=spec.get("podMonitor", False),
        prometheus_rule=spec.get("prometheusRule", False),
        labels=spec.get("labels", {}),
    )
