"""What stands around the pods of a service: budget and policy; a route, and a pool that the real endpoint picker reads; groups of
pods on several nodes, made by the real LeaderWorkerSet controller.

In order: the first tests see a cluster without the APIs that the others need, which come while the operator runs.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster import endpointpicker, hosted, leaderworkersets
from tests.cluster.conversation import ask, port_forward
from tests.cluster.kubectl import CommandError, Kubectl, condition, wait_for
from tests.operator.live import KIND, Object, applied, service, shared_namespace, wait_for_condition

pytestmark = pytest.mark.usefixtures("own_cluster")

READY_S = 240.0
# The operator looks every minute which APIs there are.
DISCOVERED_S = 90.0
POOL = {"inferencePool": {"enabled": True, "endpointPickerRef": {"name": "epp"}}}
ROUTE = {"httpRoute": {"parentRefs": [{"name": "edge"}], "hostnames": ["chat.example"]}}
# No node has so many cores: children are made, and no pod runs.
UNSCHEDULABLE = {"resources": {"cpu": "4000", "memory": "1Gi"}}
GROUP = {"parallelism": {"tensor": 3, "nodes": 3}, "resources": {"cpu": "100m", "memory": "2Gi"}}


@pytest.fixture(scope="module")
def namespace(octavo: Kubectl, cluster: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


@pytest.fixture(scope="module")
def served(namespace: Kubectl) -> Iterator[Kubectl]:
    """A namespace with two services that need APIs which the cluster does not have yet: `chat` a pool, `trio` groups of pods."""
    with applied(namespace, service("chat", routing={**POOL, **ROUTE}), service("trio", **GROUP)):
        yield namespace


@pytest.fixture(scope="module")
def apis(served: Kubectl, cluster: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """The same once the APIs are there, and the controller of LeaderWorkerSets."""
    with ExitStack() as stack:
        stack.enter_context(endpointpicker.definitions(cluster))
        stack.enter_context(leaderworkersets.controller(cluster, tmp_path_factory.mktemp("lws")))
        yield served
        # While the controller still runs: what it made goes with it.
        for name in ("chat", "trio"):
            served.delete(KIND, name)


def test_a_budget_and_a_policy_come_and_go_with_the_spec(namespace: Kubectl) -> None:
    spread = [{"topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}]
    asked = service(
        "pair",
        replicas=2,
        network={"metricsFrom": [{"namespaceLabels": {"kubernetes.io/metadata.name": "monitoring"}}]},
        disruption={"topologySpread": spread},
        **UNSCHEDULABLE,
    )
    with applied(namespace, asked):
        budget = wait_for(lambda: namespace.get("poddisruptionbudget", "pair-disruption"), 60, "the budget")
        policy = wait_for(lambda: namespace.get("networkpolicy", "pair-network"), 20, "the policy")
        assert budget["spec"]["maxUnavailable"] == 1
        assert policy["spec"]["podSelector"]["matchLabels"] == {"serving.octavo.dev/service": "pair"}
        workload = wait_for(
            lambda: namespace.get("deployment", "pair"), 120, "the Deployment, once the model is inspected"
        )
        assert (
            workload["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "DoNotSchedule"
        )
        namespace.patch(KIND, "pair", {"spec": {"replicas": 1, "network": None}})
        wait_for(lambda: namespace.get("poddisruptionbudget", "pair-disruption") is None, 20, "no budget for one pod")
        wait_for(lambda: namespace.get("networkpolicy", "pair-network") is None, 20, "no policy")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param({"parallelism": {"tensor": 3, "nodes": 2}}, "multiple of nodes", id="uneven ranks"),
        pytest.param(
            {**GROUP, "rollout": {"strategy": "Surge"}}, "only for one node", id="a group more than there is room for"
        ),
        pytest.param(
            {"routing": {"inferencePool": {"enabled": True}}}, "add endpointPickerRef", id="pool without a picker"
        ),
        pytest.param(
            {**GROUP, "runtime": {"kvCache": {"tiers": {"cpu": {"memory": "1Gi"}}}}},
            "only for one node",
            id="tiers of a group",
        ),
        pytest.param({"routing": {"httpRoute": {"parentRefs": []}}}, "at least 1 items", id="route without a gateway"),
        pytest.param(
            {"routing": {"httpRoute": {**ROUTE["httpRoute"], "hostnames": ["chat.example", "http://x y"]}}},
            "write it without scheme, port and path",
            id="an address for a host name",
        ),
        pytest.param(
            {"network": {"apiFrom": [{"cidr": "10.0.0.0"}]}}, "such as 10.0.0.0/8", id="address without prefix"
        ),
        pytest.param(
            {"network": {"apiFrom": [{"cidr": "10.0.0.0/8", "podLabels": {}}]}},
            "write two peers",
            id="a peer of two kinds",
        ),
        pytest.param(
            {"disruption": {"maxUnavailable": 0}}, "greater than or equal to 1", id="a budget that blocks drains"
        ),
        pytest.param({"runtime": {"extraArgs": ["--nodes=2"]}}, "spec.parallelism.nodes", id="nodes as a flag"),
    ],
)
def test_refuses_what_cannot_be(namespace: Kubectl, spec: Object, says: str) -> None:
    with pytest.raises(CommandError, match=re.escape(says)):
        namespace.apply(service("refused", **spec))


def test_says_which_apis_the_cluster_lacks(served: Kubectl) -> None:
    chat = wait_for_condition(served, "chat", "RoutingReady", "False", says="InferencePoolNotServed")
    assert "install" in condition(chat, "RoutingReady")["message"]
    trio = wait_for_condition(served, "trio", "Ready", "False", says="LeaderWorkerSetNotServed")
    assert condition(trio, "Reconciling")["status"] == "True"
    assert condition(trio, "Stalled")["status"] == "False", "installing it helps, without a change of the spec"
    with pytest.raises(CommandError, match="cannot be changed between 1 and more"):
        served.patch(KIND, "trio", {"spec": {"parallelism": {"nodes": 1}}})


def test_makes_them_once_the_apis_are_there(apis: Kubectl) -> None:
    pool = wait_for(lambda: apis.get("inferencepools", "chat-pool"), DISCOVERED_S, "the InferencePool")
    assert pool["spec"]["targetPorts"] == [{"number": 8000}]
    wait_for(lambda: apis.get("httproutes", "chat-route"), DISCOVERED_S, "the HTTPRoute")
    wait_for(lambda: apis.get("leaderworkersets", "trio"), DISCOVERED_S, "the LeaderWorkerSet")


def test_routing_is_ready_once_the_gateway_has_accepted_pool_and_route(apis: Kubectl) -> None:
    """What a gateway writes is written here: none of those that there are is built for this cluster."""
    wait_for_condition(apis, "chat", "RoutingReady", "False", says="NoGateway")
    versions = {kind: children_version(apis, kind) for kind in ("inferencepools", "httproutes")}
    for kind, name in (("inferencepools", "chat-pool"), ("httproutes", "chat-route")):
        patch_parents(apis, kind, name, accepted=kind == "inferencepools")
    wait_for_condition(
        apis, "chat", "RoutingReady", "False", says="gateway edge: HTTPRoute Accepted is False: no such host"
    )
    patch_parents(apis, "httproutes", "chat-route", accepted=True)
    wait_for_condition(apis, "chat", "RoutingReady", "True")
    assert versions == {kind: children_version(apis, kind) for kind in versions}, "the operator changes neither"


def children_version(kubectl: Kubectl, kind: str) -> int:
    [found] = kubectl.list(kind)
    return int(found["metadata"]["generation"])


def patch_parents(kubectl: Kubectl, kind: str, name: str, *, accepted: bool) -> None:
    found = kubectl.get(kind, name)
    assert found is not None
    common = {"observedGeneration": found["metadata"]["generation"], "lastTransitionTime": "2026-01-01T00:00:00Z"}
    judged = {"Accepted": str(accepted), "ResolvedRefs": "True"}
    said = [
        {"type": what, "status": status, "reason": "Judged", "message": "no such host", **common}
        for what, status in judged.items()
    ]
    parent = {"parentRef": {"name": "edge"}, "controllerName": "octavo.dev/test", "conditions": said}
    kubectl.patch(kind, name, {"status": {"parents": [parent]}}, subresource="status")


def test_the_endpoint_picker_reads_the_pods_of_the_pool(apis: Kubectl, tmp_path: Path) -> None:
    """Unconfigured, as far as names of metrics go: those that it expects are those that the pods have."""
    wait_for_condition(apis, "chat", "Ready", "True", timeout_s=READY_S)

    def its_own(name: str) -> float:
        found = re.search(
            rf'^inference_pool_{name}{{name="chat-pool"}} (\S+)$', hosted.read(endpointpicker.METRICS_URL), re.M
        )
        return float(found[1]) if found else 0.0

    with (
        endpointpicker.picker(apis, "chat-pool", tmp_path / "picker.log"),
        port_forward(apis, "service/chat", 80) as url,
        ThreadPoolExecutor(1) as pool,
    ):
        wait_for(lambda: its_own("ready_pods") == 1, 30, "the picker to know the pod")
        assert its_own("average_kv_cache_utilization") == 0
        answer = pool.submit(ask, url, "chat", "Tell me a long story about paper.", lambda _: None, limit_tokens=200)
        wait_for(lambda: its_own("average_kv_cache_utilization") > 0, 30, "the picker to see used KV blocks")
        assert not answer.done(), "while the answer is being made"
        assert answer.result().tokens == 200
        wait_for(lambda: its_own("average_kv_cache_utilization") == 0, 30, "the picker to see them free again")


def test_three_pods_of_one_rank_each_answer_as_one(apis: Kubectl) -> None:
    found = wait_for_condition(apis, "trio", "Ready", "True", timeout_s=READY_S)
    assert condition(found, "Ready")["message"] == "the group is ready"
    assert (found["status"]["replicas"], found["status"]["readyReplicas"]) == (1, 1)
    assert {pod["name"] for pod in found["status"]["pods"]} == {"trio-0", "trio-0-1", "trio-0-2"}
    slices = apis.list("endpointslices", "kubernetes.io/service-name=trio")
    assert [point["targetRef"]["name"] for entry in slices for point in entry["endpoints"]] == ["trio-0"]
    selected = {pod["metadata"]["name"] for pod in apis.list("pods", found["status"]["selector"])}
    assert selected == {"trio-0"}, "autoscalers count leaders"
    with port_forward(apis, "service/trio", 80) as url:
        answer = ask(url, "trio", "What is paper made of?", lambda _: None, limit_tokens=12)
    assert answer.tokens == 12
    with port_forward(apis, "service/chat", 80) as url:
        alone = ask(url, "chat", "What is paper made of?", lambda _: None, limit_tokens=12)
    assert answer.text.split()[:4] == alone.text.split()[:4], "the ranks say what one process says"


def test_a_worker_that_is_deleted_takes_its_group_along_once_what_runs_has_finished(apis: Kubectl) -> None:
    before = uids_of(apis, "trio")
    pieces: list[str] = []

    def show(text: str) -> None:
        pieces.append(text)
        if len(pieces) == 2:
            apis.delete("pod", "trio-0-2", wait=False)

    with port_forward(apis, "pod/trio-0", 8000) as url:
        answer = ask(url, "trio", "Tell me a long story about paper.", show, limit_tokens=40)
    assert answer.tokens == 40, "the leader drains, and the worker's rank stays until it has"
    wait_for(lambda: len(new := uids_of(apis, "trio")) == 3 and not new & before, 90, "three other pods")
    wait_for_condition(apis, "trio", "Ready", "True", timeout_s=READY_S)


def uids_of(kubectl: Kubectl, name: str) -> set[str]:
    """Of the pods that are not ending."""
    pods = kubectl.list("pods", f"serving.octavo.dev/service={name}")
    return {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def test_a_suspended_group_stops_all_its_pods(apis: Kubectl) -> None:
    apis.patch(KIND, "trio", {"spec": {"suspend": True}})
    wait_for_condition(apis, "trio", "Ready", "True", says="Suspended", timeout_s=90)
    wait_for(lambda: not apis.list("pods", "serving.octavo.dev/service=trio"), 60, "all three pods to be gone")
