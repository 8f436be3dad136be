"""How much memory the GPUs have that a service's pods may come to. Pure."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from octavo_operator.capacity.nodes import Node, objection

_MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class GpuMemory:
    """Of one GPU, in bytes: the least and the most among the eligible nodes, and who says so."""

    least_bytes: int
    most_bytes: int
    source: str


def stated(size_bytes: int) -> GpuMemory:
    """What the spec says."""
    return GpuMemory(size_bytes, size_bytes, "spec.gpu.memory")


def label(resource: str) -> str:
    """The node label with the MiB of one GPU, as NVIDIA's feature discovery sets it: `nvidia.com/gpu.memory`, and one for each MIG
    profile that is a resource of its own.

    Source: https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md
    """
    return f"{resource}.memory"


def labelled(nodes: Iterable[Node], pod: Mapping[str, Any], resource: str) -> GpuMemory | None:
    """Of the nodes that have such GPUs and let pods of the spec `pod` in; None where none of them has the label."""
    sizes = [
        int(text) * _MIB
        for node in nodes
        if node.allocatable.get(resource, 0) > 0
        and not objection(node, pod)
        and (text := node.labels.get(label(resource), "")).isdecimal()
        and int(text) > 0
    ]
    return GpuMemory(min(sizes), max(sizes), f"the node label {label(resource)}") if sizes else None
