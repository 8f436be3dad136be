"""An InferenceService as a value. The CRD's schema and CEL rules have refused most of what cannot be; what they cannot know
(no image anywhere, a quantity too fine) is a SpecError here and becomes the condition SpecValid=False.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator import kinds
from octavo_operator.kinds import Kind
from octavo_operator.pins import Pin
from octavo_operator.spec import autoscaling, devices, disruption, model, monitoring, network, rollout, routing, runtime
from octavo_operator.spec.autoscaling import Autoscaling
from octavo_operator.spec.devices import Device, Gpu, Parallelism, Resources
from octavo_operator.spec.disruption import Disruption
from octavo_operator.spec.errors import SpecError
from octavo_operator.spec.model import Model
from octavo_operator.spec.monitoring import Monitoring
from octavo_operator.spec.network import Network
from octavo_operator.spec.rollout import Rollout
from octavo_operator.spec.routing import Routing
from octavo_operator.spec.runtime import Runtime


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
        disruption=disruption.parse(spec.get("disruption", {})),
        network=network.parse(spec.get("network")),
        routing=routing.parse(spec.get("routing", {})),
    )


def workload_kind(body: Mapping[str, Any]) -> Kind:
    """The kind of object that makes the pods of the InferenceService `body`, valid or not."""
    nodes = body["spec"].get("parallelism", {}).get("nodes", 1)
    return kinds.LEADER_WORKER_SET if nodes > 1 else kinds.DEPLOYMENT


def check_claim(service: Service, claim: Mapping[str, Any] | None) -> None:
    """Raises SpecError where several pods are wanted of a claim that only one node can mount. A missing claim is waited for."""
    if claim is None or service.most_replicas < 2:
        return
    modes = set(claim["spec"].get("accessModes", ()))
    if not modes & {"ReadWriteMany", "ReadOnlyMany"}:
        raise SpecError(
            "ClaimNotShared",
            f"the claim {service.model.source.claim} of spec.model.source is {', '.join(sorted(modes))}, which pods on several "
            f"nodes cannot mount: set spec.replicas or spec.autoscaling.maxReplicas to 1, or use a claim that is ReadWriteMany or "
            f"ReadOnlyMany",
        )
