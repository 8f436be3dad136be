"""A service on several nodes: its LeaderWorkerSet, and its groups counted from their pods."""

import json
from typing import Any

import pytest

from octavo_operator import kinds
from octavo_operator.desired import pod_v1
from octavo_operator.desired.leaderworkerset import leader_worker_set, revision_of, worker_template
from octavo_operator.groups import groups_view
from octavo_operator.observed import DeploymentView, Observed, PodView, pod_view
from octavo_operator.plan import Plan, plan
from octavo_operator.status import measure
from tests.operator.golden import CHILD_LABELS, OWNER, WHOLE
from tests.operator.samples import parsed

PARALLELISM = {"tensor": 6, "nodes": 3}


def made(**spec: Any) -> dict[str, Any]:
    service = parsed(**{"parallelism": PARALLELISM, **spec})
    return leader_worker_set(service, plan(service))


def templates(**spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    template = made(**spec)["spec"]["leaderWorkerTemplate"]
    return template["leaderTemplate"], template["workerTemplate"]


def test_the_whole_set_around_its_templates() -> None:
    found = made(replicas=2)
    template = found["spec"]["leaderWorkerTemplate"]
    del template["leaderTemplate"], template["workerTemplate"]
    assert found == {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": "chat",
            "namespace": "demo",
            "labels": CHILD_LABELS,
            "annotations": WHOLE["metadata"]["annotations"],
            "ownerReferences": [OWNER],
        },
        "spec": {
            "replicas": 2,
            "startupPolicy": "LeaderCreated",
            "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1, "partition": 0},
            },
            "leaderWorkerTemplate": {"size": 3, "restartPolicy": "RecreateGroupOnPodRestart"},
        },
    }


def test_the_leader_is_the_pod_of_one_node_that_is_told_of_the_others() -> None:
    leader, _ = templates()
    assert leader["spec"] == pod_v1.template(parsed(parallelism=PARALLELISM))["spec"]
    assert leader["metadata"]["labels"]["serving.octavo.dev/serving"] == "true"
    assert "--nodes=3" in leader["spec"]["containers"][0]["args"]


def test_a_worker_serves_nothing_and_has_nothing_to_drain() -> None:
    leader, worker = templates()
    assert "serving.octavo.dev/serving" not in worker["metadata"]["labels"]
    assert worker["metadata"]["labels"]["serving.octavo.dev/service"] == "chat"
    ours, theirs = (template["spec"]["containers"][0] for template in (leader, worker))
    assert theirs == {
        **{field: value for field, value in ours.items() if field not in ("readinessProbe", "lifecycle")},
        "ports": [{"name": "health", "containerPort": 8001, "protocol": "TCP"}],
    }


def test_each_pod_has_its_share_of_the_gpus() -> None:
    gpu = {"nvidia.com/gpu": "2"}
    for template in templates(device="gpu"):
        assert template["spec"]["containers"][0]["resources"] == {"requests": gpu, "limits": gpu}


def test_a_workers_template_leaves_the_leaders_as_it_is() -> None:
    leader = pod_v1.template(parsed(parallelism=PARALLELISM))
    before = json.dumps(leader)
    worker_template(leader)
    assert json.dumps(leader) == before


@pytest.mark.parametrize(
    ("spec", "is_another"),
    [
        pytest.param({"replicas": 4}, False, id="more groups"),
        pytest.param({"suspend": True}, False, id="none"),
        pytest.param({"runtime": {"maxNumSeqs": 8}}, True, id="another flag"),
    ],
)
def test_the_revision_is_that_of_the_pods(spec: dict[str, Any], is_another: bool) -> None:
    assert (revision_of(made(**spec)) != revision_of(made())) == is_another
    leader, worker = templates(**spec)
    marks = {template["metadata"]["annotations"]["serving.octavo.dev/revision"] for template in (leader, worker)}
    assert marks == {revision_of(made(**spec))}


@pytest.mark.parametrize(("strategy", "unavailable"), [("OneByOne", 1), ("Recreate", "100%")])
def test_never_more_groups_than_wanted(strategy: Any, unavailable: object) -> None:
    found = leader_worker_set(parsed(parallelism=PARALLELISM), Plan(2, strategy, ""))
    assert found["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"] == {
        "maxSurge": 0,
        "maxUnavailable": unavailable,
        "partition": 0,
    }


def pod(name: str, *, serving: bool = True, ready: bool = True, ending: bool = False, old: bool = False) -> PodView:
    revision = "old" if old else revision_of(made())
    return PodView(name, ready, ending, "", serving=serving, revision=revision)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], DeploymentView(True), id="none yet"),
        pytest.param(
            [pod("chat-0"), pod("chat-0-1", serving=False), pod("chat-0-2", serving=False)],
            DeploymentView(True, replicas=1, updated=1, ready=1),
            id="one group of three pods",
        ),
        pytest.param(
            [pod("chat-0", old=True), pod("chat-1", ready=False)],
            DeploymentView(True, replicas=2, updated=1, ready=1),
            id="amid a rollout",
        ),
        pytest.param([pod("chat-0", ready=False, ending=True)], DeploymentView(True), id="one that ends"),
    ],
)
def test_groups_are_counted_by_their_leaders(pods: list[PodView], expected: DeploymentView) -> None:
    assert groups_view(made(), pods) == expected


def test_a_pod_tells_its_revision() -> None:
    leader, _ = templates()
    live = {"metadata": {"name": "chat-0", **leader["metadata"]}, "spec": {}, "status": {}}
    assert pod_view(live).revision == revision_of(made())


def test_without_the_api_it_says_what_to_install() -> None:
    service = parsed(parallelism=PARALLELISM)
    found = measure(service, plan(service), Observed())
    assert (found.done, found.reason) == (False, "LeaderWorkerSetNotServed")
    assert "spec.parallelism.nodes is 3" in found.message
    assert "install the LeaderWorkerSet controller" in found.message
    waiting = measure(service, plan(service), Observed(served=frozenset({kinds.LEADER_WORKER_SET})))
    assert waiting.reason == "Replacing"


def test_replicas_are_spoken_of_as_groups() -> None:
    service = parsed(parallelism=PARALLELISM, replicas=2)
    both = Observed(DeploymentView(True, 2, 2, 2), (pod("chat-0"), pod("chat-1")))
    assert measure(service, plan(service), both).message == "all 2 groups are ready"
    one = Observed(DeploymentView(True, 2, 1, 1), (pod("chat-0"), pod("chat-1", ready=False, old=True)))
    assert measure(service, plan(service), one).message.startswith("2 groups wanted, 1 of the current spec")
