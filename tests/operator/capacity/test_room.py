from typing import Any

import pytest

from octavo_operator.capacity import nodes
from octavo_operator.capacity.room import Census, Count, Room, Tenant, room, tenant
from octavo_operator.service import Key

KEY = Key("demo", "chat")
GPU = "nvidia.com/gpu"


def node(name: str, gpus: int, *, pods: int = 110, **spec: Any) -> nodes.Node:
    allocatable = {"pods": str(pods), "memory": "64Gi", **({GPU: str(gpus)} if gpus else {})}
    conditions = [{"type": "Ready", "status": "True"}]
    return nodes.node(
        {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable, "conditions": conditions}}
    )


def pod(
    where: str | None, gpus: int, *, of: str = "", phase: str = "Running", namespace: str = "demo"
) -> dict[str, Any]:
    labels = {"serving.octavo.dev/service": of} if of else {}
    return {
        "metadata": {"name": "p", "namespace": namespace, "labels": labels},
        "spec": {"containers": [asking(gpus)], **({"nodeName": where} if where else {})},
        "status": {"phase": phase},
    }


def asking(gpus: int, **more: str) -> dict[str, Any]:
    return {"resources": {"limits": {GPU: str(gpus), **more}}}


def counted(*pods: dict[str, Any], on: list[nodes.Node]) -> Census:
    count = Count()
    for each in pods:
        count.add(each)
    return count.census(on)


def found(census: Census, *own: Tenant, gpus: int = 1, **spec: Any) -> Room:
    result = room(census, KEY, own, {"containers": [asking(gpus)], **spec})
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("pods", "slots"),
    [
        pytest.param([], 4, id="empty nodes"),
        pytest.param([pod("a", 3)], 2, id="another's pod"),
        pytest.param([pod("a", 3, phase="Succeeded")], 4, id="one that has ended holds nothing"),
        pytest.param([pod(None, 3)], 4, id="nor one without a place"),
        pytest.param([pod("a", 3, phase="Pending")], 2, id="one that is placed and does not run yet does"),
        pytest.param([pod("a", 4, of="chat")], 4, id="the service's own are known better from the watch"),
        pytest.param(
            [pod("a", 4, of="chat", namespace="other")], 2, id="a namesake's of another namespace are others'"
        ),
        pytest.param([pod("a", 1), pod("b", 3)], 1, id="what is left on two nodes does not add up"),
    ],
)
def test_counts_places_node_by_node(pods: list[dict[str, Any]], slots: int) -> None:
    assert found(counted(*pods, on=[node("a", 4), node("b", 4)]), gpus=2).slots() == slots


def test_what_own_pods_hold_is_not_free_until_they_go() -> None:
    own = [Tenant("a", {GPU: 2000, "pods": 1000}), Tenant("a", {GPU: 2000, "pods": 1000})]
    free = found(counted(on=[node("a", 4)]), *own, gpus=3)
    assert (free.slots(), free.slots(own[:1]), free.slots(own)) == (0, 0, 1)


def test_a_node_that_is_closed_to_such_pods_has_no_place() -> None:
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    census = counted(on=[node("a", 4, unschedulable=True), node("b", 4, taints=[taint])])
    free = found(census)
    assert free.slots() == 0
    assert free.told() == "no node is open to such pods (1 cordoned, 1 tainted)"


def test_a_resource_that_no_node_has_leaves_it_open() -> None:
    census = counted(on=[node("a", 0)])
    assert room(census, KEY, [], {"containers": [asking(1)]}) is None


def test_the_number_of_pods_of_a_node_is_a_limit_too() -> None:
    free = found(counted(pod("a", 0), on=[node("a", 8, pods=2)]))
    assert free.slots() == 1


@pytest.mark.parametrize(
    ("taken", "memory", "need", "told"),
    [
        pytest.param(7, "1Gi", f"2 {GPU}", f"a has 1 of 8 {GPU} free", id="GPUs"),
        pytest.param(0, "65Gi", "65 GiB memory", "a has 64 GiB of 64 GiB memory free", id="memory"),
    ],
)
def test_tells_of_the_resource_that_is_scarce(taken: int, memory: str, need: str, told: str) -> None:
    census = counted(pod("a", taken), on=[node("a", 8)])
    free = room(census, KEY, [], {"containers": [asking(2, memory=memory)]})
    assert free is not None
    assert free.slots() == 0
    assert (free.need(), free.told()) == (need, told)


def test_tells_of_the_nodes_with_most() -> None:
    census = counted(*(pod(f"n{index}", index) for index in range(5)), on=[node(f"n{index}", 4) for index in range(5)])
    told = found(census, gpus=9).told()
    assert told.startswith(f"n0 has 4 of 4 {GPU} free, n1 has 3 of 4 {GPU} free, n2")
    assert told.endswith("2 more nodes no more")


def test_sees_what_a_live_pod_holds() -> None:
    assert tenant(pod("a", 2)) == Tenant("a", {GPU: 2000, "pods": 1000})
    assert tenant(pod(None, 2)) is None
