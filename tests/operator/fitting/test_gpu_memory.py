"""The memory of GPUs as nodes' labels say it."""

import dataclasses
from typing import Any

import pytest

from octavo_operator.capacity.nodes import Node
from octavo_operator.fitting.gpu_memory import GpuMemory, labelled

MIB = 1 << 20
GPU = "nvidia.com/gpu"
H100 = Node("h100", {f"{GPU}.memory": "81559", "pool": "large"}, (), False, True, {GPU: 8000})
L4 = dataclasses.replace(H100, name="l4", labels={f"{GPU}.memory": "23034", "pool": "small"})
PLAIN = dataclasses.replace(H100, name="plain", labels={}, allocatable={})
SOURCE = "the node label nvidia.com/gpu.memory"


@pytest.mark.parametrize(
    ("nodes", "pod", "expected"),
    [
        pytest.param([H100, PLAIN], {}, GpuMemory(81559 * MIB, 81559 * MIB, SOURCE), id="one kind"),
        pytest.param([H100, L4], {}, GpuMemory(23034 * MIB, 81559 * MIB, SOURCE), id="two kinds"),
        pytest.param(
            [H100, L4], {"nodeSelector": {"pool": "large"}}, GpuMemory(81559 * MIB, 81559 * MIB, SOURCE), id="selected"
        ),
        pytest.param([dataclasses.replace(H100, cordoned=True)], {}, None, id="cordoned"),
        pytest.param([dataclasses.replace(H100, allocatable={})], {}, None, id="a label and no GPU"),
        pytest.param([dataclasses.replace(H100, labels={})], {}, None, id="a GPU and no label"),
        pytest.param([dataclasses.replace(H100, labels={f"{GPU}.memory": "80Gi"})], {}, None, id="no number"),
        pytest.param([], {}, None, id="no nodes"),
    ],
)
def test_memory_is_that_of_nodes_that_may_run_the_pods(
    nodes: list[Node], pod: dict[str, Any], expected: GpuMemory | None
) -> None:
    assert labelled(nodes, pod, GPU) == expected


def test_each_resource_has_its_label() -> None:
    mig = Node("mig", {"nvidia.com/mig-1g.10gb.memory": "9856"}, (), False, True, {"nvidia.com/mig-1g.10gb": 7000})
    found = labelled([mig], {}, "nvidia.com/mig-1g.10gb")
    assert found == GpuMemory(9856 * MIB, 9856 * MIB, "the node label nvidia.com/mig-1g.10gb.memory")
