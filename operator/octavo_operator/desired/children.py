"""All objects that a service shall have, each built by its own pure builder. Pure.

Those of `kinds.OPTIONAL` are only wanted where the API server serves their kind; that it does not is a condition's business.
What belongs to the service and is not in this list is deleted.
"""

import dataclasses
from collections.abc import Mapping, Set
from typing import Any

from octavo_operator import kinds
from octavo_operator.desired import disruption, hpa, network
from octavo_operator.desired.deployment import deployment
from octavo_operator.desired.httproute import http_route
from octavo_operator.desired.inferencepool import inference_pool
from octavo_operator.desired.leaderworkerset import leader_worker_set
from octavo_operator.desired.podmonitor import pod_monitor
from octavo_operator.desired.prometheusrule import prometheus_rule
from octavo_operator.desired.scaledobject import scaled_object
from octavo_operator.desired.service import cluster_service
from octavo_operator.installation import Installation
from octavo_operator.kinds import Kind, Ref
from octavo_operator.plan import Plan
from octavo_operator.replicas import without_number
from octavo_operator.service import Service

_ANYWHERE = Installation()


@dataclasses.dataclass(frozen=True)
class Child:
    """An object as it shall be. `handover` is the number of pods that is handed over to an autoscaler with it. What is `held` stays
    as it is for now: neither made nor changed nor deleted."""

    kind: Kind
    body: Mapping[str, Any]
    handover: int | None = None
    held: bool = False

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, self.body["metadata"]["name"])

    @property
    def is_workload(self) -> bool:
        """Whether it makes the pods."""
        return self.kind in (kinds.DEPLOYMENT, kinds.LEADER_WORKER_SET)


def children(service: Service, plan: Plan, served: Set[Kind], installation: Installation = _ANYWHERE) -> list[Child]:
    """In the order in which they are applied; `served` holds the optional kinds that the API server knows."""
    wanted = [
        _workload(service, plan),
        Child(kinds.SERVICE, cluster_service(service)),
        *_around(service, installation),
        *_scaling(service, installation),
        *_monitoring(service),
    ]
    return [child for child in wanted if child.kind in kinds.REQUIRED or child.kind in served]


def _workload(service: Service, plan: Plan) -> Child:
    builder = deployment if service.workload_kind == kinds.DEPLOYMENT else leader_worker_set
    body = builder(service, plan)
    if not plan.handed_over:
        return Child(service.workload_kind, body)
    return Child(service.workload_kind, without_number(body), handover=plan.replicas)


def _scaling(service: Service, installation: Installation) -> list[Child]:
    """After the workload, whose number of pods is handed over before anyone else sets it."""
    tolerates = installation.kubernetes >= hpa.TOLERANCE_SINCE
    autoscaling, workload = service.autoscaling, service.workload_kind
    if autoscaling is None or service.suspend:
        return []
    if autoscaling.provider == "hpa":
        return [
            Child(
                kinds.HORIZONTAL_AUTOSCALER, hpa.autoscaler(service, autoscaling, workload, tolerance_served=tolerates)
            )
        ]
    if installation.prometheus_url is None:
        return []
    url = installation.prometheus_url
    return [Child(kinds.SCALED_OBJECT, scaled_object(service, autoscaling, workload, url, tolerance_served=tolerates))]


def _monitoring(service: Service) -> list[Child]:
    wanted = []
    if service.monitoring.pod_monitor:
        wanted.append(Child(kinds.POD_MONITOR, pod_monitor(service)))
    if service.monitoring.prometheus_rule:
        wanted.append(Child(kinds.PROMETHEUS_RULE, prometheus_rule(service)))
    return wanted


def _around(service: Service, installation: Installation) -> list[Child]:
    """What stands around the pods, where it is asked for."""
    built = {
        kinds.DISRUPTION_BUDGET: disruption.budget(service),
        kinds.NETWORK_POLICY: network.policy(service, installation.namespace),
        kinds.INFERENCE_POOL: inference_pool(service),
        kinds.HTTP_ROUTE: http_route(service),
    }
    return [Child(kind, body) for kind, body in built.items() if body is not None]
