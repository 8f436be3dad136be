"""The HorizontalPodAutoscaler of a service that asks for the provider `hpa`: it reads what the pods export through the custom
metrics API. Pure.
"""

from typing import Any

from octavo_operator import quantity
from octavo_operator.desired import labels
from octavo_operator.kinds import Kind
from octavo_operator.service import Service
from octavo_operator.spec.autoscaling import Autoscaling, Metric

# The default, a tenth, would not act on a mean of 77 % where 70 % is the target, nor ever where the target is 95 %.
TOLERANCE = "20m"
# The version of Kubernetes from which on the field is served unless its feature gate is off.
TOLERANCE_SINCE = (1, 35)


def autoscaler(service: Service, autoscaling: Autoscaling, workload: Kind, *, tolerance_served: bool) -> dict[str, Any]:
    """`workload` is the kind that is scaled, which is called as the service. A tolerance is set where the API server has one."""
    behavior = scaling_behavior(autoscaling, tolerance_served=tolerance_served)
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": labels.child_metadata(service, "autoscaler"),
        "spec": {
            "scaleTargetRef": scale_target(service, workload),
            "minReplicas": autoscaling.min_replicas,
            "maxReplicas": autoscaling.max_replicas,
            "metrics": [_metric(metric) for metric in autoscaling.metrics],
            **({"behavior": behavior} if behavior else {}),
        },
    }


def scale_target(service: Service, workload: Kind) -> dict[str, str]:
    return {"apiVersion": workload.api_version, "kind": workload.kind, "name": service.key.name}


def scaling_behavior(autoscaling: Autoscaling, *, tolerance_served: bool) -> dict[str, Any]:
    """What the spec asks for; where it leaves the tolerance upwards open, ours."""
    behavior = {way: dict(rules) for way, rules in autoscaling.behavior.items()}
    if tolerance_served:
        behavior.setdefault("scaleUp", {}).setdefault("tolerance", TOLERANCE)
    else:
        for rules in behavior.values():
            rules.pop("tolerance", None)
    return {way: rules for way, rules in behavior.items() if rules}


def _metric(metric: Metric) -> dict[str, Any]:
    target = f"{10 * metric.target}m" if metric.type == "BlockUtilization" else metric.target
    return {
        "type": "Pods",
        "pods": {
            "metric": {"name": metric.series},
            "target": {"type": "AverageValue", "averageValue": quantity.canonical(target)},
        },
    }
