from typing import Any

import pytest

from octavo_operator import standing
from octavo_operator.capacity.room import Tenant
from octavo_operator.doubts import Refusal
from octavo_operator.observed import PodView
from octavo_operator.strategy import Standing

UID = "d1"
HERE = Tenant("a", {"pods": 1000})
FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def template(flag: str, template_hash: str = "") -> dict[str, Any]:
    labels = {"app": "chat", **({"pod-template-hash": template_hash} if template_hash else {})}
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "runtime", "args": [flag]}]}}


def deployment(flag: str, *, updated: int = 0, replicas: int = 0, failure: str = "", **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "ReplicaFailure", "status": "True", "message": failure}] if failure else []
    counts = {"updatedReplicas": updated, "replicas": replicas, "observedGeneration": 1, "conditions": conditions}
    return {
        "metadata": {"uid": UID, "generation": 1, "managedFields": []},
        "spec": {"template": template(flag), **spec},
        "status": counts,
    }


def replica_set(flag: str, template_hash: str, replicas: int, owner: str = UID) -> dict[str, Any]:
    return {
        "metadata": {"ownerReferences": [{"uid": owner, "controller": True}]},
        "spec": {"template": template(flag, template_hash), "replicas": replicas},
    }


def pod(template_hash: str, place: Tenant | None = HERE, **view: Any) -> PodView:
    return PodView(
        **{"name": "p", "ready": False, "ending": False, "reason": "", **view}, template_hash=template_hash, place=place
    )


def first(live: dict[str, Any]) -> dict[str, Any]:
    """The Deployment as long as it has had one template."""
    return {**live, "metadata": {**live["metadata"], "annotations": {"deployment.kubernetes.io/revision": "1"}}}


def changed(live: dict[str, Any]) -> dict[str, Any]:
    return {
        **live,
        "metadata": {**live["metadata"], "generation": 2},
        "status": {**live["status"], "observedGeneration": 2},
    }


def unseen(generation: int) -> dict[str, Any]:
    """The Deployment before its controller has seen what it is now."""
    live = deployment("--a")
    return {**live, "metadata": {**live["metadata"], "generation": generation}, "status": {}}


def test_the_current_replica_set_is_the_one_of_the_deployments_template() -> None:
    """Also where that template comes back: the newest set is another one then."""
    sets = [replica_set("--a", "aaa", 2), replica_set("--b", "bbb", 1), replica_set("--b", "ccc", 9, owner="another")]
    assert standing.current(deployment("--a"), sets) == standing.Current("aaa", 2)
    assert standing.current(deployment("--b"), sets) == standing.Current("bbb", 1)
    assert standing.current(deployment("--c"), sets) is None


def test_pods_stand_by_template_and_place() -> None:
    pods = [
        pod("old"),
        pod("old", None),
        pod("new"),
        pod("new", None),
        pod("old", ending=True, active=False),
        pod("old", active=False),
    ]
    assert standing.mixed(3, pods, standing.Current("new", 2)) == Standing(
        wanted=3, old=(HERE, None), new=(HERE, None), ending=1
    )


def test_pods_of_groups_stand_by_their_marks() -> None:
    pods = [pod("", revision="b"), pod("", None, revision="b"), pod("", revision="a")]
    assert standing.marked(3, pods, "b") == Standing(wanted=3, old=(HERE,), new=(HERE, None))


def test_pods_that_cannot_even_be_made_wait_for_a_place() -> None:
    assert standing.mixed(2, [pod("old")], standing.Current("new", 2)).new == (None, None)


@pytest.mark.parametrize(
    ("live", "pods", "uniform"),
    [
        pytest.param(deployment("--a", updated=2, replicas=2), [pod("a"), pod("a")], True, id="all of one template"),
        pytest.param(
            deployment("--a", updated=1, replicas=2), [pod("a"), pod("a")], False, id="some of an earlier one"
        ),
        pytest.param(
            deployment("--a", updated=0, replicas=2), [pod("a"), pod("a")], False, id="none of the current one"
        ),
        pytest.param(
            deployment("--a", updated=2, replicas=2), [pod("a"), pod("b")], False, id="counts are of an earlier time"
        ),
        pytest.param(deployment("--a"), [], True, id="no pods"),
        pytest.param(first(deployment("--a")), [pod("a")], True, id="the first template, not counted yet"),
        pytest.param(first(deployment("--a")), [pod("a"), pod("b")], False, id="the first no more"),
        pytest.param(
            changed(first(deployment("--b", strategy={"type": "Recreate"}))),
            [pod("a")],
            False,
            id="the second, about to recreate",
        ),
        pytest.param(unseen(1), [], True, id="made a moment ago"),
        pytest.param(first(unseen(1)), [pod("a")], True, id="made a moment ago, with its first pod"),
        pytest.param(unseen(1), [pod("a")], False, id="made a moment ago, with a pod of who knows"),
        pytest.param(first(unseen(2)), [pod("a")], False, id="changed a moment ago"),
    ],
)
def test_most_services_need_no_look_at_replica_sets(live: dict[str, Any], pods: list[PodView], uniform: bool) -> None:
    assert standing.is_uniform(live, pods) == uniform


WAITING = Standing(2, old=(HERE,), new=(None,))
ELSEWHERE = "0/1 nodes are available: 1 node(s) had volume node affinity conflict."


@pytest.mark.parametrize(
    ("failure", "said", "stand", "refusal"),
    [
        pytest.param("", FULL, WAITING, Refusal(FULL, 1), id="other pods hold what it needs"),
        pytest.param("", ELSEWHERE, WAITING, Refusal(ELSEWHERE, 0), id="something else keeps it away"),
        pytest.param("", "", WAITING, Refusal(), id="not tried yet"),
        pytest.param("", FULL, Standing(1, new=(HERE,)), Refusal(), id="none waits that counts"),
        pytest.param(
            'pods "x" is forbidden: exceeded quota: gpus',
            "",
            WAITING,
            Refusal('pods "x" is forbidden: exceeded quota: gpus', 1),
            id="a quota that the old pods fill",
        ),
    ],
)
def test_what_keeps_new_pods_from_a_place(failure: str, said: str, stand: Standing, refusal: Refusal) -> None:
    found = standing.refusal(
        standing.failure(deployment("--a", failure=failure)), [pod("new", None, refusal=said)], stand
    )
    assert found == refusal


@pytest.mark.parametrize(
    ("view", "of", "told"),
    [
        pytest.param({"reason": "CrashLoopBackOff: exit code 1"}, "new", "p: CrashLoopBackOff: exit code 1", id="dies"),
        pytest.param({"reason": "Loading: the model is being loaded"}, "new", "", id="takes its time"),
        pytest.param({"reason": "CrashLoopBackOff: exit code 1"}, "old", "", id="an old one's death is over soon"),
        pytest.param({"reason": "Unschedulable: no room", "place": None}, "new", "", id="waits for a place"),
        pytest.param({"ready": True}, "new", "", id="is ready"),
    ],
)
def test_what_new_pods_fail_of(view: dict[str, Any], of: str, told: str) -> None:
    assert standing.failing([pod(of, **view)], standing.Current("new", 1)) == told


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        ({"type": "Recreate"}, "Recreate"),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, "Surge"),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}}, "OneByOne"),
    ],
)
def test_reads_the_strategy_that_is_live(strategy: dict[str, Any], name: str) -> None:
    assert standing.applied_strategy(deployment("--a", strategy=strategy)) == name
