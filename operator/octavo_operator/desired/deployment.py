"""The Deployment of a service that fits on one node."""

from typing import Any

from octavo_operator.desired import labels, pod
from octavo_operator.plan import Plan
from octavo_operator.service import Service

# How slow loading may be is judged by the runtime's own progress, not by a clock here.
NO_DEADLINE_S = 2**31 - 1


def deployment(service: Service, plan: Plan) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": labels.workload_metadata(service),
        "spec": {
            "replicas": plan.replicas,
            "progressDeadlineSeconds": NO_DEADLINE_S,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": labels.pod_selector(service.key)},
            "strategy": _strategy(plan),
            "template": pod.template(service),
        },
    }


def _strategy(plan: Plan) -> dict[str, Any]:
    if plan.strategy == "Recreate":
        return {"type": "Recreate"}
    surge, unavailable = (1, 0) if plan.strategy == "Surge" else (0, plan.at_once)
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
