"""What puts ports back that server-side apply cannot, since it merges them by number."""

import copy
from typing import Any

import pytest

from octavo_operator import apply
from octavo_operator.desired.deployment import deployment
from octavo_operator.desired.service import cluster_service
from octavo_operator.plan import plan
from tests.operator.samples import parsed

Body = dict[str, Any]
SERVICE = cluster_service(parsed())
DEPLOYMENT = deployment(parsed(), plan(parsed()))
CONTAINER = "/spec/template/spec/containers"


def runtime_ports(body: Body) -> list[Body]:
    [container] = body["spec"]["template"]["spec"]["containers"]
    ports: list[Body] = container["ports"]
    return ports


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"port": 81}, id="number"),
        pytest.param({"protocol": "UDP"}, id="protocol"),
    ],
)
def test_a_changed_port_of_a_service_is_replaced(change: Body) -> None:
    live = copy.deepcopy(SERVICE)
    live["spec"]["ports"][0].update(change)
    assert apply.port_repairs(SERVICE, live) == [
        {"op": "replace", "path": "/spec/ports", "value": SERVICE["spec"]["ports"]}
    ]


def test_changed_ports_of_a_container_are_replaced_where_it_stands() -> None:
    live = copy.deepcopy(DEPLOYMENT)
    runtime_ports(live)[0]["containerPort"] = 9
    live["spec"]["template"]["spec"]["containers"].insert(0, {"name": "sidecar", "ports": [{"containerPort": 5}]})
    assert apply.port_repairs(DEPLOYMENT, live) == [
        {"op": "replace", "path": f"{CONTAINER}/1/ports", "value": runtime_ports(DEPLOYMENT)}
    ]


def test_other_changes_are_left_to_apply() -> None:
    live = copy.deepcopy(DEPLOYMENT)
    live["spec"]["replicas"] = 7
    live["metadata"]["annotations"]["theirs"] = "x"
    runtime_ports(live)[0]["name"] = "web"
    del runtime_ports(live)[1]
    assert apply.port_repairs(DEPLOYMENT, live) == []


def test_ports_that_are_gone_are_left_to_apply() -> None:
    live = copy.deepcopy(DEPLOYMENT)
    del live["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert apply.port_repairs(DEPLOYMENT, live) == []
