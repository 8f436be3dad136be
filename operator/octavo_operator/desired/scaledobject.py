"""KEDA's ScaledObject of a service that asks for the provider `keda`: KEDA asks Prometheus and makes the HorizontalPodAutoscaler.
Pure.
"""

from typing import Any

from octavo_operator import names
from octavo_operator.desired import labels
from octavo_operator.desired.hpa import scale_target, scaling_behavior
from octavo_operator.kinds import Kind
from octavo_operator.service import Key, Service
from octavo_operator.spec.autoscaling import Autoscaling, Metric


def scaled_object(
    service: Service, autoscaling: Autoscaling, workload: Kind, prometheus_url: str, *, tolerance_served: bool
) -> dict[str, Any]:
    """As `hpa.autoscaler`; `prometheus_url` is where KEDA asks."""
    behavior = scaling_behavior(autoscaling, tolerance_served=tolerance_served)
    advanced = {"advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}}} if behavior else {}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": labels.child_metadata(service, "autoscaler"),
        "spec": {
            "scaleTargetRef": scale_target(service, workload),
            "minReplicaCount": autoscaling.min_replicas,
            "maxReplicaCount": autoscaling.max_replicas,
            "triggers": [_trigger(service.key, metric, prometheus_url) for metric in autoscaling.metrics],
            **advanced,
        },
    }


def query(key: Key, metric: Metric) -> str:
    """The sum over the pods, which KEDA's HorizontalPodAutoscaler divides by their number: of a mean it would do so once more.

    A busy pod whose scrape fails once still counts.
    """
    pods = f'{metric.series}{{namespace="{key.namespace}",{names.SERVICE_SERIES_LABEL}="{key.name}"}}'
    return f"sum(last_over_time({pods}[30s]))"


def _trigger(key: Key, metric: Metric, prometheus_url: str) -> dict[str, Any]:
    threshold = metric.target / 100 if metric.type == "BlockUtilization" else metric.target
    return {
        "type": "prometheus",
        "name": metric.type.lower(),
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": prometheus_url,
            "query": query(key, metric),
            "threshold": f"{threshold:g}",
            # A series that is missing says that a link is broken, not that there is no load: hold the number of pods.
            "ignoreNullValues": "false",
        },
    }
