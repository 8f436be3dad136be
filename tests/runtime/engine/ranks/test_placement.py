"""Which ranks run where: from flags, and from the environment of a LeaderWorkerSet."""

import re

import pytest

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.ranks.placement import Placement, placement

GROUP = {"LWS_GROUP_SIZE": "2", "LWS_WORKER_INDEX": "1", "LWS_LEADER_ADDRESS": "tiny-0.tiny.default"}


def placed(size: int, environment: dict[str, str], **flags: object) -> Placement:
    return placement(ServeConfig("model", tensor_parallel_size=size, **flags), environment)  # type: ignore[arg-type]  # a table


@pytest.mark.parametrize(
    ("size", "environment", "flags", "expected"),
    [
        pytest.param(1, {}, {}, Placement(1), id="alone"),
        pytest.param(3, {}, {}, Placement(3), id="one node"),
        pytest.param(1, {"LWS_GROUP_SIZE": "1"}, {}, Placement(1), id="a group of one"),
        pytest.param(4, GROUP, {}, Placement(4, 2, 1, "tiny-0.tiny.default"), id="a group of two"),
        pytest.param(4, GROUP, {"node_rank": 0}, Placement(4, 2, 0, "tiny-0.tiny.default"), id="a flag wins"),
        pytest.param(
            4, {}, {"nodes": 4, "node_rank": 3, "rendezvous": "::1"}, Placement(4, 4, 3, "::1"), id="flags alone"
        ),
    ],
)
def test_flags_come_before_the_environment(
    size: int, environment: dict[str, str], flags: dict[str, object], expected: Placement
) -> None:
    assert placed(size, environment, **flags) == expected


@pytest.mark.parametrize(
    ("size", "environment", "flags", "text"),
    [
        pytest.param(3, GROUP, {}, "--tensor-parallel-size 3 .* 2 nodes .* a multiple of 2 up to 64", id="uneven"),
        pytest.param(1, GROUP, {}, "--tensor-parallel-size 1 .* a multiple of 2", id="a group for one rank"),
        pytest.param(96, GROUP, {}, "--tensor-parallel-size 96 .* up to 64", id="more ranks than ports"),
        pytest.param(4, {}, {"nodes": 2, "rendezvous": "a"}, "--nodes 2: --node-rank .*is not set", id="no number"),
        pytest.param(4, {}, {"nodes": 2, "node_rank": 0}, "--nodes 2: --rendezvous .*is not set", id="no leader"),
        pytest.param(4, GROUP, {"node_rank": 2}, "--node-rank 2: of 2 nodes .* the last is 1", id="no such node"),
        pytest.param(4, {"LWS_GROUP_SIZE": "two"}, {}, "LWS_GROUP_SIZE is 'two', not a whole number", id="no size"),
    ],
)
def test_contradictions_are_named_with_a_remedy(
    size: int, environment: dict[str, str], flags: dict[str, object], text: str
) -> None:
    with pytest.raises(ConfigError) as error:
        placed(size, environment, **flags)
    assert re.search(text, str(error.value))


def test_nodes_have_as_many_ranks_in_order() -> None:
    nodes = [Placement(6, 3, node, "leader") for node in range(3)]
    assert [list(node.ranks_here) for node in nodes] == [[0, 1], [2, 3], [4, 5]]
    assert nodes[0].remote_ranks == [2, 3, 4, 5]
    assert Placement(3).remote_ranks == []
