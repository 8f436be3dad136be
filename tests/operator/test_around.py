"""What stands around a service's pods: budget, spread, policy, pool and route. One whole object each, then what specs change."""

from typing import Any

import pytest

from octavo_operator.desired.disruption import budget, spread_constraints
from octavo_operator.desired.httproute import http_route
from octavo_operator.desired.inferencepool import inference_pool
from octavo_operator.desired.network import policy
from tests.operator.golden import CHILD_LABELS, OWNER
from tests.operator.samples import parsed

GROUPS = {"parallelism": {"tensor": 6, "nodes": 3}}
SERVICE_LABEL = {"serving.octavo.dev/service": "chat"}
SERVING = {**SERVICE_LABEL, "serving.octavo.dev/serving": "true"}
PICKER = {"enabled": True, "endpointPickerRef": {"name": "epp"}}


def metadata(role: str) -> dict[str, Any]:
    labels = {**CHILD_LABELS, "app.kubernetes.io/component": role}
    return {"name": f"chat-{role}", "namespace": "demo", "labels": labels, "ownerReferences": [OWNER]}


def test_the_whole_budget() -> None:
    assert budget(parsed(replicas=2)) == {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata("disruption"),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": SERVICE_LABEL},
        },
    }


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"replicas": 1}, id="one"),
        pytest.param({}, id="one by default"),
        pytest.param({"replicas": 0}, id="none"),
        pytest.param({"replicas": 2, "suspend": True}, id="suspended"),
        pytest.param({"autoscaling": {"minReplicas": 1, "maxReplicas": 5}}, id="at times one"),
    ],
)
def test_no_budget_stands_in_the_way_of_the_only_replica(spec: dict[str, Any]) -> None:
    assert budget(parsed(disruption={"maxUnavailable": 1}, **spec)) is None


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        pytest.param({"disruption": {"maxUnavailable": 3}}, 3, id="pods"),
        pytest.param(GROUPS, 1, id="a group goes with its first pod"),
        pytest.param(
            {**GROUPS, "disruption": {"maxUnavailable": 2}}, 4, id="a whole group and the first pod of a second"
        ),
    ],
)
def test_a_budget_counts_replicas(spec: dict[str, Any], pods: int) -> None:
    made = budget(parsed(replicas=5, **spec))
    assert made is not None
    assert made["spec"]["maxUnavailable"] == pods


def test_pods_are_spread_as_asked() -> None:
    asked = [
        {"topologyKey": "kubernetes.io/hostname"},
        {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
    ]
    host, zone = spread_constraints(parsed(disruption={"topologySpread": asked}))
    assert host == {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": SERVING},
        "matchLabelKeys": ["pod-template-hash"],
    }
    assert (zone["maxSkew"], zone["whenUnsatisfiable"]) == (2, "DoNotSchedule")
    assert spread_constraints(parsed()) == []


def ingress(**spec: Any) -> list[dict[str, Any]]:
    made = policy(parsed(**spec), "octavo-system")
    assert made is not None
    found: list[dict[str, Any]] = made["spec"]["ingress"]
    return found


API = [{"protocol": "TCP", "port": 8000}]
HEALTH = [{"protocol": "TCP", "port": 8001}]
OPERATOR = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "octavo-system"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "octavo-operator"}},
}


def test_the_whole_policy() -> None:
    assert policy(parsed(network={}), "octavo-system") == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata("network"),
        "spec": {
            "podSelector": {"matchLabels": SERVICE_LABEL},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": API}, {"ports": HEALTH, "from": [OPERATOR]}],
        },
    }
    assert policy(parsed(), "octavo-system") is None


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        pytest.param({}, {"podSelector": {}}, id="the own namespace"),
        pytest.param({"namespaceLabels": {}}, {"namespaceSelector": {}}, id="every namespace"),
        pytest.param({"cidr": "10.0.0.0/8"}, {"ipBlock": {"cidr": "10.0.0.0/8"}}, id="addresses"),
        pytest.param(
            {"namespaceLabels": {"team": "a"}, "podLabels": {"app": "web"}},
            {
                "namespaceSelector": {"matchLabels": {"team": "a"}},
                "podSelector": {"matchLabels": {"app": "web"}},
            },
            id="pods of namespaces",
        ),
    ],
)
def test_the_api_admits_chosen_peers(peer: dict[str, Any], expected: dict[str, Any]) -> None:
    assert ingress(network={"apiFrom": [peer]})[0] == {"ports": API, "from": [expected]}


def test_an_empty_list_of_peers_closes_the_api_but_not_the_operators_port() -> None:
    prometheus = {"namespaceLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    [rule] = ingress(network={"apiFrom": [], "metricsFrom": [prometheus]})
    assert rule == {
        "ports": HEALTH,
        "from": [OPERATOR, {"namespaceSelector": {"matchLabels": prometheus["namespaceLabels"]}}],
    }


def test_an_operator_outside_the_cluster_may_come_from_anywhere() -> None:
    made = policy(parsed(network={}), None)
    assert made is not None
    assert made["spec"]["ingress"] == [{"ports": API}, {"ports": HEALTH}]


def test_ranks_of_a_group_reach_each_other_on_every_port() -> None:
    assert ingress(network={}, **GROUPS)[-1] == {"from": [{"podSelector": {"matchLabels": SERVICE_LABEL}}]}


def test_the_whole_pool() -> None:
    assert inference_pool(parsed(routing={"inferencePool": PICKER})) == {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": metadata("pool"),
        "spec": {
            "selector": {"matchLabels": SERVING},
            "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {
                "group": "",
                "kind": "Service",
                "name": "epp",
                "port": {"number": 9002},
                "failureMode": "FailOpen",
            },
        },
    }


@pytest.mark.parametrize(
    "routing",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"inferencePool": {**PICKER, "enabled": False}}, id="switched off"),
        pytest.param({"inferencePool": {"endpointPickerRef": {"name": "epp"}}}, id="not switched on"),
    ],
)
def test_no_pool_and_no_route_unless_asked(routing: dict[str, Any]) -> None:
    assert inference_pool(parsed(routing=routing)) is None
    assert http_route(parsed(routing=routing)) is None


def test_the_whole_route() -> None:
    asked = {"parentRefs": [{"name": "edge", "namespace": "gateways", "sectionName": "https", "port": 443}]}
    assert http_route(parsed(routing={"httpRoute": {**asked, "hostnames": ["chat.example"]}})) == {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": metadata("route"),
        "spec": {
            "parentRefs": [
                {
                    "group": "gateway.networking.k8s.io",
                    "kind": "Gateway",
                    "name": "edge",
                    "namespace": "gateways",
                    "sectionName": "https",
                    "port": 443,
                }
            ],
            "hostnames": ["chat.example"],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                    "backendRefs": [{"group": "", "kind": "Service", "name": "chat", "port": 80, "weight": 1}],
                }
            ],
        },
    }


def test_a_route_leads_to_the_pool_where_there_is_one() -> None:
    route = {"parentRefs": [{"name": "edge"}], "requestTimeoutSeconds": 0}
    made = http_route(parsed(routing={"inferencePool": PICKER, "httpRoute": route}))
    assert made is not None
    [rule] = made["spec"]["rules"]
    pool = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "chat-pool", "weight": 1}
    assert rule["backendRefs"] == [pool]
    assert rule["timeouts"] == {"request": "0s"}
