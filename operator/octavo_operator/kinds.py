"""The kinds of objects that the operator reads or writes, and where their REST paths are. Pure.

`REQUIRED` children exist for every service that fits on one node and are never deleted by the operator. `OPTIONAL` ones exist
where a service asks for them and the API server serves them, which may change at any time (their CRDs are others'); what is no
longer asked for is deleted.
"""

import dataclasses

from octavo_operator import names


@dataclasses.dataclass(frozen=True)
class Kind:
    """`group` is empty for the core API; `plural` is the resource in paths and rights."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """As `kubectl` takes it, such as `scaledobjects.keda.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


INFERENCE_SERVICE = Kind(names.GROUP, names.VERSION, names.KIND, names.PLURAL)
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
POD = Kind("", "v1", "Pod", "pods")
NODE = Kind("", "v1", "Node", "nodes")
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets")
EVENT = Kind("events.k8s.io", "v1", "Event", "events")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")

DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
SERVICE = Kind("", "v1", "Service", "services")
REQUIRED = (DEPLOYMENT, SERVICE)

DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
HORIZONTAL_AUTOSCALER = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
HTTP_ROUTE = Kind("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
INFERENCE_POOL = Kind("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools")
JOB = Kind("batch", "v1", "Job", "jobs")
LEADER_WORKER_SET = Kind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
POD_MONITOR = Kind("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors")
PROMETHEUS_RULE = Kind("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules")
SCALED_OBJECT = Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
OPTIONAL = (
    DISRUPTION_BUDGET,
    HORIZONTAL_AUTOSCALER,
    HTTP_ROUTE,
    INFERENCE_POOL,
    JOB,
    LEADER_WORKER_SET,
    NETWORK_POLICY,
    POD_MONITOR,
    PROMETHEUS_RULE,
    SCALED_OBJECT,
)
# What the operator cannot work without, and all that it watches.
ESSENTIAL = (INFERENCE_SERVICE, POD, *REQUIRED)
WATCHED = (*ESSENTIAL, *OPTIONAL)


@dataclasses.dataclass(frozen=True)
class Ref:
    """What names a child beside its service's namespace."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.name}"
