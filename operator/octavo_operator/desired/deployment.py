"""The Deployment of a service that fits on one node."""

from typing import Any

from octavo_operator import names
from octavo_operator.desired import labels, pod_v1
from octavo_operator.plan import Plan
from octavo_operator.service import Service

# How slow loading may be is judged by the runtime's own progress, not by a clock here.
NO_DEADLINE_S = 2**31 - 1


def deployment(service: Service, plan: Plan) -> dict[str, Any]:
    metadata = labels.child_metadata(service, labels.SERVER)
    metadata["annotations"] = {names.RENDERER_ANNOTATION: pod_v1.RENDERER}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": plan.replicas,
            "progressDeadlineSeconds": NO_DEADLINE_S,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": labels.pod_selector(service.key)},
            "strategy": _strategy(plan),
            "template": pod_v1.template(service),
        },
    }


def _strategy(plan: Plan) -> dict[str, Any]:
    if plan.strategy == "Recreate":
        return {"type": "Recreate"}
    surge = 1 if plan.strategy == "Surge" else 0
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1 - surge}}
