"""`spec.parallelism`, `spec.gpu` and `spec.resources`: what each pod computes on. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from octavo_operator.spec.amounts import amount

Device = Literal["gpu", "cpu"]


@dataclasses.dataclass(frozen=True)
class Parallelism:
    """`tensor` devices on `nodes` nodes share one copy of the model; each node has one pod of it."""

    tensor: int = 1
    nodes: int = 1

    @property
    def devices_per_pod(self) -> int:
        return self.tensor // self.nodes


@dataclasses.dataclass(frozen=True)
class Gpu:
    """`memory` is a canonical quantity, of one GPU; None where the nodes' labels are to say it."""

    resource: str = "nvidia.com/gpu"
    memory: str | None = None
    node_selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()


@dataclasses.dataclass(frozen=True)
class Resources:
    """Canonical quantities of each pod; None where nothing is asked for."""

    cpu: str | None = None
    memory: str | None = None


def parse_parallelism(spec: Mapping[str, Any]) -> Parallelism:
    return Parallelism(tensor=spec.get("tensor", 1), nodes=spec.get("nodes", 1))


def parse_gpu(spec: Mapping[str, Any]) -> Gpu:
    return Gpu(
        resource=spec.get("resource", "nvidia.com/gpu"),
        memory=amount("spec.gpu.memory", spec.get("memory")),
        node_selector=spec.get("nodeSelector", {}),
        tolerations=tuple(spec.get("tolerations", ())),
    )


def parse_resources(spec: Mapping[str, Any]) -> Resources:
    return Resources(
        cpu=amount("spec.resources.cpu", spec.get("cpu")),
        memory=amount("spec.resources.memory", spec.get("memory")),
    )
