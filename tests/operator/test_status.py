from typing import Any

import pytest

from octavo_operator import status
from octavo_operator.desired import pod
from octavo_operator.observed import DeploymentView, Observed, PodView
from octavo_operator.plan import plan
from tests.operator.samples import IMAGE, body, parsed

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
LOADING = PodView("chat-1", ready=False, ending=False, reason="Loading: the model")
CRASHING = PodView("chat-2", ready=False, ending=False, reason="CrashLoopBackOff: exit code 2")
ENDING = PodView("chat-3", ready=False, ending=True, reason="Terminating: finishing its requests")
EVICTED = PodView("chat-4", ready=False, ending=False, reason="Evicted: low on memory")
READY = PodView("chat-1", ready=True, ending=False, reason="")


def serving(observed: Observed, **spec: Any) -> dict[str, Any]:
    service = parsed(**spec)
    return status.serving(service, plan(service), observed)


def conditions(found: dict[str, Any]) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in found["conditions"]}


def ready_condition(found: dict[str, Any]) -> tuple[str, str]:
    [ready] = [condition for condition in found["conditions"] if condition["type"] == "Ready"]
    return ready["reason"], ready["message"]


def settled(replicas: int, updated: int, ready: int, failure: str = "") -> DeploymentView:
    return DeploymentView(settled=True, replicas=replicas, updated=updated, ready=ready, failure=failure)


@pytest.mark.parametrize(
    ("spec", "observed", "reason", "message"),
    [
        pytest.param({}, Observed(), "Replacing", "waiting for an earlier Deployment", id="the old one is going"),
        pytest.param(
            {},
            Observed(DeploymentView(settled=False, ready=1, replicas=1, updated=1)),
            "Applying",
            "waiting",
            id="not settled",
        ),
        pytest.param(
            {},
            Observed(settled(1, 1, 0), (LOADING,)),
            "PodsNotReady",
            "1 pod wanted, 0 ready; chat-1: Loading: the model",
            id="loading",
        ),
        pytest.param(
            {"replicas": 3},
            Observed(settled(3, 1, 3)),
            "RollingOut",
            "3 pods wanted, 1 of the current spec",
            id="rolling",
        ),
        pytest.param({}, Observed(settled(2, 1, 2)), "Draining", "1 pod still to be stopped", id="an old pod is left"),
        pytest.param(
            {},
            Observed(settled(2, 1, 1), (READY, CRASHING)),
            "PodsNotReady",
            "the pods of the current spec are not all ready; those of the earlier one stay until they are; "
            "chat-2: CrashLoopBackOff: exit code 2",
            id="the new pod crashes while the old one serves",
        ),
        pytest.param(
            {"suspend": True}, Observed(settled(1, 1, 1)), "Draining", "1 pod still to be stopped", id="being suspended"
        ),
        pytest.param(
            {"suspend": True},
            Observed(settled(1, 1, 0), (LOADING,)),
            "Draining",
            "1 pod still to be stopped",
            id="being suspended while it loads",
        ),
        pytest.param(
            {"replicas": 2},
            Observed(settled(4, 4, 3)),
            "Draining",
            "2 pods still to be stopped",
            id="scaled down while one loads",
        ),
        pytest.param(
            {"suspend": True},
            Observed(settled(0, 0, 0), (ENDING,)),
            "Draining",
            "1 pod finishes its requests",
            id="suspended with a pod that ends",
        ),
        pytest.param(
            {"replicas": 0},
            Observed(settled(0, 0, 0), (ENDING, READY)),
            "Draining",
            "2 pods finish their requests",
            id="at zero with pods that end",
        ),
        pytest.param(
            {}, Observed(settled(0, 0, 0, failure="exceeded quota")), "PodsRefused", "exceeded quota", id="pods refused"
        ),
    ],
)
def test_is_reconciling_and_says_what_it_waits_for(
    spec: dict[str, Any], observed: Observed, reason: str, message: str
) -> None:
    found = serving(observed, **spec)
    assert ready_condition(found)[0] == reason
    assert message in ready_condition(found)[1]
    known = conditions(found)
    assert (known["Ready"], known["Reconciling"], known["Stalled"], known["SpecValid"]) == (
        "False",
        "True",
        "False",
        "True",
    )


@pytest.mark.parametrize(
    ("spec", "observed", "reason", "available"),
    [
        pytest.param({}, Observed(settled(1, 1, 1), (READY,)), "AllReady", "True", id="ready"),
        pytest.param({"suspend": True}, Observed(settled(0, 0, 0)), "Suspended", "False", id="suspended"),
        pytest.param({"replicas": 0}, Observed(settled(0, 0, 0)), "ScaledToZero", "False", id="at zero"),
        pytest.param(
            {"replicas": 0}, Observed(settled(0, 0, 0), (EVICTED,)), "ScaledToZero", "False", id="at zero, one evicted"
        ),
        pytest.param({}, Observed(settled(1, 1, 1), (READY, ENDING)), "AllReady", "True", id="ready, an old one ends"),
    ],
)
def test_is_ready_when_all_that_is_wanted_is_there(
    spec: dict[str, Any], observed: Observed, reason: str, available: str
) -> None:
    found = serving(observed, **spec)
    assert ready_condition(found)[0] == reason
    assert conditions(found) == {
        "Ready": "True",
        "Available": available,
        "Reconciling": "False",
        "Stalled": "False",
        "SpecValid": "True",
    }


def test_stays_available_while_a_new_pod_loads() -> None:
    assert conditions(serving(Observed(settled(2, 1, 1), (READY, LOADING))))["Available"] == "True"


def test_holds_counts_address_selector_image_and_generation() -> None:
    found = serving(Observed(settled(2, 1, 2)))
    assert {name: value for name, value in found.items() if name != "conditions"} == {
        "observedGeneration": 3,
        "replicas": 2,
        "updatedReplicas": 1,
        "readyReplicas": 2,
        "selector": "serving.octavo.dev/service=chat,serving.octavo.dev/serving=true",
        "url": "http://chat.demo.svc",
        "revision": pod.revision(parsed()),
        "runtimeImage": IMAGE,
    }
    assert {condition["observedGeneration"] for condition in found["conditions"]} == {3}


@pytest.mark.parametrize(
    ("problem", "spec_valid"),
    [
        pytest.param(status.Problem("NoRuntimeImage", "set it"), "False", id="the spec is wrong"),
        pytest.param(
            status.Problem("NameConflict", "rename", spec_valid=True), "True", id="another object is in the way"
        ),
    ],
)
def test_is_stalled_where_only_people_help(problem: status.Problem, spec_valid: str) -> None:
    found = status.stalled(body(), problem, Observed())
    assert ready_condition(found) == (problem.reason, problem.message)
    assert conditions(found) == {
        "Ready": "False",
        "Available": "False",
        "Reconciling": "False",
        "Stalled": "True",
        "SpecValid": spec_valid,
    }


def test_a_denied_write_is_reconciling_not_stalled() -> None:
    found = status.denied(body(), "may not create", Observed())
    assert ready_condition(found) == ("Denied", "may not create")
    assert (conditions(found)["Reconciling"], conditions(found)["Stalled"]) == ("True", "False")


def test_a_contested_service_is_on_its_way_however_its_pods_are_and_keeps_its_image() -> None:
    service = parsed()
    found = status.serving(
        service, plan(service), Observed(settled(1, 1, 1), (READY,)), obstacle=status.contested("someone meddles")
    )
    assert ready_condition(found) == ("Contested", "someone meddles")
    assert conditions(found) == {
        "Ready": "False",
        "Available": "True",
        "Reconciling": "True",
        "Stalled": "False",
        "SpecValid": "True",
    }
    assert found["runtimeImage"] == IMAGE


def test_lists_at_most_32_pods_worst_first_and_counts_the_rest() -> None:
    ready = tuple(PodView(f"pod-{number:02}", ready=True, ending=False, reason="") for number in range(40))
    bad = PodView("pod-99", ready=False, ending=False, reason="OOMKilled: …")
    found = serving(Observed(settled(41, 41, 40), (*ready, bad)), replicas=41)
    assert found["pods"][0] == {"name": "pod-99", "reason": "OOMKilled: …"}
    assert found["pods"][1] == {"name": "pod-00"}
    assert (len(found["pods"]), found["podsOmitted"]) == (32, 9)


def test_messages_fit_the_schema() -> None:
    found = status.denied(body(), "x" * 5000, Observed())
    assert max(len(condition["message"]) for condition in found["conditions"]) == 1024


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    loading = status.merged({}, serving(Observed(settled(1, 1, 0), (LOADING,))), THEN)
    assert loading is not None
    ready = status.merged(loading, serving(Observed(settled(1, 1, 1), (READY,))), NOW)
    assert ready is not None
    times = {condition["type"]: condition["lastTransitionTime"] for condition in ready["conditions"]}
    assert times == {"Ready": NOW, "Available": NOW, "Reconciling": NOW, "Stalled": THEN, "SpecValid": THEN}


def test_a_status_that_says_the_same_is_not_written() -> None:
    observed = Observed(settled(1, 1, 0), (LOADING,))
    live = status.merged({}, serving(observed), THEN)
    assert live is not None
    assert status.merged(live, serving(observed), NOW) is None
