"""The whole life of one service, as those see it who judge it by its status: kubectl wait, kstatus, Argo CD, who reads Events.

It is lived once, in the fixture, and recorded; beside it a second one is applied again every second, as GitOps tools do.
"""

import contextlib
import datetime
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.cluster import argocd
from tests.cluster.conversation import port_forward
from tests.cluster.kstatus import Record, following
from tests.cluster.kubectl import Kubectl, condition, wait_for
from tests.cluster.reapplied import Reapplied, reapplying
from tests.operator.live import KIND, Object, applied, service, shared_namespace, wait_for_condition

RESOURCE = "inferenceservices.v1alpha1.serving.octavo.dev"
READY_S = 240.0
# Applied again and again, by the one way and the other: whether server-side, and what.
REAPPLIED = {False: service("calm", suspend=True, replicas=2), True: service("still", suspend=True, replicas=2)}
# A pool that three answers fill.
SMALL = {"kvCache": {"memory": "8Mi"}, "maxModelLen": 256}


@dataclass
class Life:
    """`states` as kstatus told them, `events` of the service and what was there at the moments that tests ask for."""

    record: Record
    events: list[Object] = field(default_factory=list)
    rolled: Object = field(default_factory=dict)
    pods: list[str] = field(default_factory=list)
    pressed_s: float = 0.0


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


@pytest.fixture(scope="module")
def reapplied(octavo: Kubectl, namespace: Kubectl) -> Iterator[Reapplied]:
    with applied(namespace, REAPPLIED[False]):
        namespace.apply(REAPPLIED[True], server_side=True)
        for item in REAPPLIED.values():
            wait_for_condition(
                namespace, item["metadata"]["name"], "Ready", "True", says="Suspended", timeout_s=READY_S
            )
        with reapplying(namespace, REAPPLIED) as found:
            yield found


@pytest.fixture(scope="module")
def life(octavo: Kubectl, namespace: Kubectl, reapplied: Reapplied) -> Iterator[Life]:
    with following(namespace, RESOURCE, "life") as record:
        found = Life(record)
        try:
            live(namespace, found)
        finally:
            namespace.delete(KIND, "life")
        wait_for(lambda: record.states[-1].status == "NotFound", 20.0, "the watcher to see the end")
        yield found


def live(kubectl: Kubectl, life: Life) -> None:
    kubectl.apply(service("life", runtime=SMALL))
    wait_until_ready(kubectl)
    began_s = time.monotonic()
    press(kubectl)
    life.pressed_s = time.monotonic() - began_s
    kubectl.patch(KIND, "life", {"spec": {"runtime": {"maxNumSeqs": 8}}})
    wait_until_ready(kubectl)
    life.rolled = kubectl.get(KIND, "life") or {}
    life.pods = [
        argument
        for pod in kubectl.list("pods", "serving.octavo.dev/service=life,serving.octavo.dev/serving=true")
        if "deletionTimestamp" not in pod["metadata"]
        for argument in pod["spec"]["containers"][0]["args"]
    ]
    kubectl.patch(KIND, "life", {"spec": {"runtime": {"extraArgs": ["--no-such-flag=1"]}}})
    wait_for_condition(kubectl, "life", "Ready", "False", says="no-such-flag", timeout_s=120.0)
    # The operator's administrator allows no service accounts.
    kubectl.patch(KIND, "life", {"spec": {"podTemplate": {"spec": {"serviceAccountName": "admin"}}}})
    wait_for_condition(kubectl, "life", "Stalled", "True", says="NotAllowed", timeout_s=60.0)
    kubectl.patch(KIND, "life", {"spec": {"podTemplate": None, "suspend": True}})
    wait_for_condition(kubectl, "life", "Ready", "True", says="Suspended", timeout_s=120.0)
    life.events = [
        event
        for event in kubectl.list("events.events.k8s.io")
        if event["regarding"].get("uid") == life.rolled["metadata"]["uid"]
    ]


def wait_until_ready(kubectl: Kubectl) -> None:
    """As people and pipelines do, at once after the change."""
    kubectl.run("wait", KIND, "life", "--for=condition=Ready", f"--timeout={READY_S:.0f}s", timeout_s=READY_S + 10.0)


def press(kubectl: Kubectl) -> None:
    """Asks for more at once than the pool holds until the service says that it is degraded: nine long answers in three requests, of
    which each alone wants three pools."""
    over = threading.Event()
    body = {"model": "life", "prompt": "Paper is", "n": 3, "max_tokens": 200, "ignore_eos": True, "temperature": 1.0}
    # Past any proxy of this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with port_forward(kubectl, "service/life", 80) as url, ThreadPoolExecutor(3) as clients:
        request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")

        def client() -> None:
            while not over.is_set():
                # Some are refused, as they should be.
                with contextlib.suppress(urllib.error.HTTPError), opener.open(request, timeout=120.0) as answer:
                    answer.read()

        for _ in range(3):
            clients.submit(client)
        try:
            wait_for_condition(kubectl, "life", "Degraded", "True", timeout_s=180.0)
        finally:
            over.set()


def test_is_current_for_kstatus_only_while_what_is_asked_for_is_there(life: Life) -> None:
    current = [state.object for state in life.record.states if state.status == "Current"]
    for item in current:
        status = item["status"]
        counts = (status["replicas"], status["readyReplicas"], status["updatedReplicas"])
        assert counts == ((0, 0, 0) if item["spec"].get("suspend") else (1, 1, 1))
        assert status["observedGeneration"] == item["metadata"]["generation"]
        assert condition(item, "Ready")["status"] == "True"
    assert {item["metadata"]["generation"] for item in current} == {1, 2, 5}, "first, rolled, suspended"


def test_is_failed_for_kstatus_only_while_nothing_but_a_change_helps(life: Life) -> None:
    failed = [state.object for state in life.record.states if state.status == "Failed"]
    assert failed
    assert {condition(item, "Stalled")["reason"] for item in failed} == {"NotAllowed"}


def test_goes_through_the_states_of_its_life_in_order(life: Life) -> None:
    """Between them it may be on its way again, as where a starved machine makes a pod miss its probes."""
    told = iter(state.status for state in life.record.states)
    passed = [
        "InProgress",
        "Current",
        "InProgress",
        "Current",
        "InProgress",
        "Failed",
        "InProgress",
        "Current",
        "NotFound",
    ]
    assert all(status in told for status in passed)


def test_kubectl_wait_returns_when_the_change_is_there_and_not_before(life: Life) -> None:
    assert life.rolled["status"]["observedGeneration"] == life.rolled["metadata"]["generation"] == 2
    assert "--max-num-seqs=8" in life.pods
    assert len([argument for argument in life.pods if argument == "serve"]) == 1, "the earlier pod is on its way out"


def test_conditions_say_of_which_generation_they_are_and_turn_only_when_they_change(life: Life) -> None:
    seen: dict[str, Object] = {}
    for state in life.record.states:
        before = seen  # a condition that was absent meanwhile begins anew
        seen = {entry["type"]: entry for entry in state.object["status"].get("conditions", ())}
        for kind, entry in seen.items():
            assert entry["observedGeneration"] == state.object["status"]["observedGeneration"]
            if kind in before and before[kind]["status"] == entry["status"]:
                assert before[kind]["lastTransitionTime"] == entry["lastTransitionTime"], kind
    assert {"Ready", "Available", "Reconciling", "Stalled", "SpecValid", "Degraded"} <= seen.keys()


def test_is_degraded_once_pressure_has_lasted_and_says_what_is_done(life: Life) -> None:
    states = [state.object for state in life.record.states]
    degraded = [item for item in states if condition(item, "Degraded").get("status") == "True"]
    found = degraded[0]["status"]
    assert found["degradation"]["level"] >= 1
    assert found["degradation"]["steps"][0] == "strict_admission"
    told, since = (
        datetime.datetime.fromisoformat(text)
        for text in (condition(degraded[0], "Degraded")["lastTransitionTime"], found["degradation"]["since"])
    )
    assert 29 <= (told - since).total_seconds() < 60
    pressed = [pod for item in degraded for pod in item["status"].get("pods", ()) if pod.get("pressureLevel")]
    assert {pod["phase"] for pod in pressed} == {"Pressured"}
    assert all(pod["blocksTotal"] > 1 for pod in pressed)


def test_writes_the_status_of_a_service_under_pressure_at_most_every_few_seconds(life: Life) -> None:
    moments = [
        state.object
        for state in life.record.states
        if state.object["metadata"]["generation"] == 1 and state.status == "Current"
    ]
    assert len(moments) <= 8 + life.pressed_s / 10, "loads change at every step of the engine"


def test_events_tell_each_thing_once(life: Life) -> None:
    told = {event["reason"]: event for event in life.events}
    assert {"Ready", "Degraded", "RollingOut", "NotAllowed", "Suspended"} <= told.keys()
    [*_, crash] = [told[reason] for reason in ("Exited", "CrashLoopBackOff") if reason in told]
    assert (crash["type"], crash["related"]["kind"]) == ("Warning", "Pod")
    assert "no-such-flag" in crash["note"]
    assert {told[reason]["type"] for reason in ("Degraded", "NotAllowed")} == {"Warning"}
    assert "maxNumSeqs" in told["RollingOut"]["note"] or "args" in told["RollingOut"]["note"]
    texts = [(event["reason"], event["note"]) for event in life.events]
    assert len(texts) == len(set(texts)) <= 15


def test_argo_cd_judges_by_the_documented_script(life: Life) -> None:
    states = [state for state in life.record.states if state.status != "NotFound"]
    words = argocd.health([state.object for state in states])
    allowed = {
        "InProgress": {"Progressing"},
        "Current": {"Healthy", "Suspended", "Degraded"},
        "Failed": {"Degraded"},
        "Terminating": {"Progressing"},
    }
    for state, word in zip(states, words, strict=True):
        assert word.status in allowed[state.status]
        suspended = state.status == "Current" and state.object["spec"].get("suspend", False)
        assert (word.status == "Suspended") == suspended
    told = [word.status for word in words]
    assert told[0] == "Progressing"
    assert {"Progressing", "Healthy", "Degraded", "Suspended"} == set(told)


def test_applying_it_again_every_second_changes_nothing(reapplied: Reapplied, life: Life) -> None:
    wait_for(lambda: reapplied.times >= 15 or reapplied.failure, 40.0, "15 rounds")
    assert reapplied.failure is None
    assert reapplied.versions() == reapplied.before
    assert reapplied.differences() == ""
