"""An InferenceService as a value. The CRD's schema and CEL rules have refused most of what cannot be; what they cannot know
(no image anywhere, a quantity too fine) is a SpecError here and becomes the condition SpecValid=False.
"""

import dataclasses
from collections.abc import Mapping, Set
from typing import Any

from octavo_operator import kinds
from octavo_operator.kinds import Kind
from octavo_operator.pins import Pin
from octavo_operator.spec import (
    autoscaling,
    devices,
    disruption,
    model,
    monitoring,
    network,
    pod_template,
    rollout,
    routing,
    runtime,
)
from octavo_operator.spec.autoscaling import Autoscaling
from octavo_operator.spec.devices import Device, Gpu, Parallelism, Resources
from octavo_operator.spec.disruption import Disruption
from octavo_operator.spec.errors import SpecError
from octavo_operator.spec.model import Model
from octavo_operator.spec.monitoring import Monitoring
from octavo_operator.spec.network import Network
from octavo_operator.spec.pod_template import PodTemplate
from octavo_operator.spec.rollout import Rollout
from octavo_operator.spec.routing import Routing
from octavo_operator.spec.runtime import Runtime
from octavo_operator.spec.secrets import SecretKey, parse_secret_key


@dataclasses.dataclass(frozen=True, order=True)
class Key:
    """What names one InferenceService in a cluster, and its children."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True)
class Service:
    """One InferenceService as the rest of the operator sees it: a field for each group of the spec."""

    key: Key
    uid: str
    generation: int
    pin: Pin
    model: Model
    runtime: Runtime
    device: Device
    parallelism: Parallelism
    gpu: Gpu
    resources: Resources
    replicas: int
    autoscaling: Autoscaling | None
    rollout: Rollout
    monitoring: Monitoring
    suspend: bool
    api_keys: SecretKey | None
    pod_template: PodTemplate
    disruption: Disruption
    network: Network | None
    routing: Routing

    @property
    def most_replicas(self) -> int:
        """How many pods there may be at once, but for a rollout."""
        return self.autoscaling.max_replicas if self.autoscaling else self.replicas

    @property
    def least_replicas(self) -> int:
        """How many pods, or groups of them, there always are, but for disruptions."""
        if self.suspend:
            return 0
        return self.autoscaling.min_replicas if self.autoscaling else self.replicas

    @property
    def workload_kind(self) -> Kind:
        """The kind of child that makes the pods; it is called as the service."""
        return kinds.DEPLOYMENT if self.parallelism.nodes == 1 else kinds.LEADER_WORKER_SET


def parse(body: Mapping[str, Any], pin: Pin) -> Service:
    """The Service that an InferenceService's `body` describes, its pods made with `pin`. Raises SpecError."""
    metadata, spec = body["metadata"], body["spec"]
    return Service(
        key=Key(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        generation=metadata["generation"],
        pin=pin,
        model=model.parse(spec["model"], metadata["name"]),
        runtime=runtime.parse(spec.get("runtime", {}), pin.image),
        device=spec.get("device", "gpu"),
        parallelism=devices.parse_parallelism(spec.get("parallelism", {})),
        gpu=devices.parse_gpu(spec.get("gpu", {})),
        resources=devices.parse_resources(spec.get("resources", {})),
        replicas=spec.get("replicas", 1),
        autoscaling=autoscaling.parse(spec.get("autoscaling")),
        rollout=rollout.parse(spec.get("rollout", {})),
        monitoring=monitoring.parse(spec.get("monitoring", {})),
        suspend=spec.get("suspend", False),
        api_keys=parse_secret_key(spec.get("auth", {}).get("apiKeySecretRef"), "api-keys"),
        pod_template=pod_template.parse(spec.get("podTemplate", {})),
        disruption=disruption.parse(spec.get("disruption", {})),
        network=network.parse(spec.get("network")),
        routing=routing.parse(spec.get("routing", {})),
    )


def workload_kind(body: Mapping[str, Any]) -> Kind:
    """The kind of object that makes the pods of the InferenceService `body`, valid or not."""
    nodes = body["spec"].get("parallelism", {}).get("nodes", 1)
    return kinds.LEADER_WORKER_SET if nodes > 1 else kinds.DEPLOYMENT


def claims(service: Service) -> dict[str, frozenset[str]]:
    """The claims that the pods mount, with the access modes that let several pods do so."""
    found = {}
    if service.model.source.claim is not None:
        found[service.model.source.claim] = frozenset({"ReadWriteMany", "ReadOnlyMany"})
    if service.model.cache is not None and service.model.cache.claim is not None:
        found[service.model.cache.claim] = frozenset({"ReadWriteMany"})
    return found


def check_claim(service: Service, claim: Mapping[str, Any] | None, shared: Set[str]) -> None:
    """Raises SpecError where several pods are wanted of a claim that has no mode in `shared`. A missing claim is waited for."""
    if claim is None or service.most_replicas * service.parallelism.nodes < 2:
        return
    modes = set(claim["spec"].get("accessModes", ()))
    if not modes & shared:
        raise SpecError(
            "ClaimNotShared",
            f"the claim {claim['metadata']['name']} is {', '.join(sorted(modes))}, which pods on several nodes cannot mount: set "
            "spec.replicas or spec.autoscaling.maxReplicas to 1, or use a claim that is "
            f"{' or '.join(sorted(shared, reverse=True))}",
        )
