"""An InferenceService as a value. The CRD's schema and CEL rules have refused most of what cannot be; what they cannot know
(no image anywhere, a quantity too fine) is a SpecError here and becomes the condition SpecValid=False.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator.spec import autoscaling, devices, model, monitoring, rollout, runtime
from octavo_operator.spec.autoscaling import Autoscaling
from octavo_operator.spec.devices import Device, Gpu, Parallelism, Resources
from octavo_operator.spec.errors import SpecError
from octavo_operator.spec.model import Model
from octavo_operator.spec.monitoring import Monitoring
from octavo_operator.spec.rollout import Rollout
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

    @property
    def most_replicas(self) -> int:
        """How many pods there may be at once, but for a rollout."""
        return self.autoscaling.max_replicas if self.autoscaling else self.replicas


def parse(body: Mapping[str, Any], default_image: str | None) -> Service:
    """The Service that an InferenceService's `body` describes. Raises SpecError."""
    metadata, spec = body["metadata"], body["spec"]
    return Service(
        key=Key(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        generation=metadata["generation"],
        model=model.parse(spec["model"], metadata["name"]),
        runtime=runtime.parse(spec.get("runtime", {}), default_image),
        device=spec.get("device", "gpu"),
        parallelism=devices.parse_parallelism(spec.get("parallelism", {})),
        gpu=devices.parse_gpu(spec.get("gpu", {})),
        resources=devices.parse_resources(spec.get("resources", {})),
        replicas=spec.get("replicas", 1),
        autoscaling=autoscaling.parse(spec.get("autoscaling")),
        rollout=rollout.parse(spec.get("rollout", {})),
        monitoring=monitoring.parse(spec.get("monitoring", {})),
        suspend=spec.get("suspend", False),
    )


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
