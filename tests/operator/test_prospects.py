import dataclasses
from typing import Any

import pytest

from octavo_operator import prospects
from octavo_operator.capacity.room import Room, Tenant
from octavo_operator.conditions import Condition, Withheld
from octavo_operator.observed import DeploymentView, Observed
from octavo_operator.plan import Plan
from octavo_operator.strategy import Outlook, Standing
from tests.operator.samples import parsed

GPU = "nvidia.com/gpu"
ONE = Tenant("a", {GPU: 1000, "pods": 1000})
FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def room(free: int, gpus: int = 1) -> Room:
    return Room({GPU: gpus * 1000, "pods": 1000}, {"a": {GPU: free * 1000, "pods": 100_000}}, {"a": {GPU: 8000}})


CLOSED = Room({GPU: 1000, "pods": 1000}, {}, objections={"cordoned": 1})


def found(outlook: Outlook, *, held: bool = False, failure: str = "", **spec: Any) -> dict[str, Condition]:
    service = parsed(device="gpu", **spec)
    plan = Plan(outlook.standing.wanted, "OneByOne", "OneByOne: because", held=held, outlook=outlook)
    observed = Observed(DeploymentView(settled=True, failure=failure))
    return {condition.type: condition for condition in prospects.conditions(service, plan, observed)}


def test_says_nothing_where_nobody_looked() -> None:
    assert prospects.conditions(parsed(), Plan(1, "Surge", ""), Observed()) == []


@pytest.mark.parametrize(
    ("withheld", "status", "says"),
    [
        pytest.param(
            Withheld("DoesNotFit", "too big"), "True", "no pods of this spec are made: too big", id="for good"
        ),
        pytest.param(
            Withheld("Inspecting", "a Job looks", for_good=False),
            "False",
            "no pods of this spec are made yet: a Job looks",
            id="for now",
        ),
    ],
)
@pytest.mark.parametrize(
    "standing", [pytest.param(Standing(1), id="no pods"), pytest.param(Standing(1, new=(ONE,)), id="earlier pods")]
)
def test_says_that_no_pods_are_made_and_why(standing: Standing, withheld: Withheld, status: str, says: str) -> None:
    step = Plan(1, "Surge", "", outlook=Outlook(standing, room(1)))
    blocked = prospects.conditions(parsed(), step, Observed(), withheld)[1]
    assert blocked == Condition("RolloutBlocked", status, withheld.reason, says)


def test_names_the_kind_that_groups_of_pods_need() -> None:
    blocked = found(Outlook(Standing(1), room(1)), parallelism={"nodes": 3})["RolloutBlocked"]
    assert (blocked.status, blocked.reason) == ("True", "LeaderWorkerSetNotServed")
    assert "no pods of this spec are made: spec.parallelism.nodes is 3" in blocked.message
    stopped = found(Outlook(Standing(0)), parallelism={"nodes": 3})["RolloutBlocked"]
    assert (stopped.status, stopped.reason) == ("False", "NotRollingOut")


@pytest.mark.parametrize(
    ("outlook", "status", "reason", "says"),
    [
        pytest.param(Outlook(Standing(0)), "True", "NothingWanted", "no pods", id="none wanted"),
        pytest.param(
            Outlook(Standing(2, new=(ONE, ONE))), "True", "AllPlaced", "all 2 pods have a node", id="all placed"
        ),
        pytest.param(
            Outlook(Standing(2), room(2)),
            "True",
            "RoomFound",
            "2 pods of 1 nvidia.com/gpu more: they fit",
            id="to be made",
        ),
        pytest.param(
            Outlook(Standing(1), room(2)), "True", "RoomFound", "1 pod of 1 nvidia.com/gpu more: it fits", id="one"
        ),
        pytest.param(
            Outlook(Standing(1), room(0)),
            "False",
            "InsufficientGPUs",
            "1 pod of 1 nvidia.com/gpu more: it does not fit (a has 0 of 8",
            id="no room for one",
        ),
        pytest.param(
            Outlook(Standing(2), room(0)), "False", "InsufficientGPUs", "more: 0 of them fit (a", id="none of several"
        ),
        pytest.param(
            Outlook(Standing(2, old=(ONE, ONE)), room(0)),
            "True",
            "RoomFound",
            "they fit once the old pods are gone",
            id="in the place of the old ones",
        ),
        pytest.param(
            Outlook(Standing(3, new=(ONE, None)), room(1)),
            "False",
            "InsufficientGPUs",
            "2 pods of 1 nvidia.com/gpu more: 1 of them fits (a has 1 of 8 nvidia.com/gpu free); free some, add nodes",
            id="too few",
        ),
        pytest.param(
            Outlook(Standing(1), CLOSED),
            "False",
            "NoNodeOpen",
            "no node is open to such pods (1 cordoned)",
            id="no node takes such pods",
        ),
        pytest.param(
            Outlook(Standing(1), None, "the operator may not list nodes"),
            "Unknown",
            "NotKnown",
            "the operator may not list nodes",
            id="not readable",
        ),
        pytest.param(
            Outlook(Standing(1, new=(None,), words=FULL), room(3)),
            "False",
            "Unschedulable",
            f"yet the scheduler says: {FULL}",
            id="the scheduler disagrees",
        ),
    ],
)
def test_tells_whether_wanted_pods_have_room(outlook: Outlook, status: str, reason: str, says: str) -> None:
    condition = found(outlook)["CapacityAvailable"]
    assert (condition.status, condition.reason) == (status, reason), condition.message
    assert says in condition.message


OLD_AND_WAITING = Standing(2, old=(ONE, ONE), new=(None,))
EXPLICIT = {"rollout": {"strategy": "Surge"}}


@pytest.mark.parametrize(
    ("outlook", "more", "status", "reason", "says"),
    [
        pytest.param(Outlook(Standing(1, new=(ONE,))), {}, "False", "NotRollingOut", "no rollout", id="at rest"),
        pytest.param(
            Outlook(Standing(2, old=(ONE, ONE)), room(0)), {}, "False", "RollingOut", "OneByOne: because", id="goes on"
        ),
        pytest.param(
            Outlook(Standing(1), room(1)), {}, "False", "Starting", "pods are being made", id="the first pods"
        ),
        pytest.param(
            Outlook(Standing(2, old=(ONE, ONE)), room(0, 5)),
            {"held": True},
            "True",
            "InsufficientGPUs",
            "because",
            id="held",
        ),
        pytest.param(
            Outlook(Standing(1, new=(None,)), room(0)),
            {},
            "True",
            "InsufficientGPUs",
            "1 pod of 1 nvidia.com/gpu waits for room: a has 0",
            id="no room at all",
        ),
        pytest.param(
            Outlook(Standing(2, new=(None, None)), room(0)),
            {},
            "True",
            "InsufficientGPUs",
            "2 pods of 1 nvidia.com/gpu wait for room",
            id="no room for several",
        ),
        pytest.param(Outlook(OLD_AND_WAITING, room(0)), {}, "False", "RollingOut", "", id="Auto will make room"),
        pytest.param(
            Outlook(OLD_AND_WAITING, room(0)),
            EXPLICIT,
            "True",
            "InsufficientGPUs",
            "set spec.rollout.strategy to Auto instead of Surge",
            id="the strategy that is asked for makes none",
        ),
        pytest.param(
            Outlook(dataclasses.replace(OLD_AND_WAITING, ending=1), room(0)),
            EXPLICIT,
            "False",
            "RollingOut",
            "",
            id="a pod that ends will",
        ),
        pytest.param(
            Outlook(dataclasses.replace(OLD_AND_WAITING, words=FULL), None, "not readable"),
            EXPLICIT,
            "True",
            "Unschedulable",
            FULL,
            id="the scheduler's words where room is not known",
        ),
        pytest.param(
            Outlook(Standing(2, old=(ONE,), new=(ONE,)), room(0), failing="chat-1: CrashLoopBackOff: exit code 1"),
            {},
            "True",
            "PodsFail",
            "CrashLoopBackOff: exit code 1; the old pods stay meanwhile",
            id="new pods fail",
        ),
        pytest.param(
            Outlook(OLD_AND_WAITING, room(1)),
            {"failure": "pods is forbidden: exceeded quota: gpus"},
            "True",
            "QuotaExceeded",
            "exceeded quota: gpus",
            id="a quota",
        ),
        pytest.param(
            Outlook(OLD_AND_WAITING, room(1)),
            {"failure": "denied by policy"},
            "True",
            "PodsRefused",
            "policy",
            id="a policy",
        ),
    ],
)
def test_tells_what_a_rollout_waits_for(
    outlook: Outlook, more: dict[str, Any], status: str, reason: str, says: str
) -> None:
    condition = found(outlook, **more)["RolloutBlocked"]
    assert (condition.status, condition.reason) == (status, reason), condition.message
    assert says in condition.message
