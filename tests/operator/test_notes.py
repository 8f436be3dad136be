"""What of a reconcile becomes an Event."""

from typing import Any

import pytest

from octavo_operator import kinds
from octavo_operator.events.notes import Note, Write, of_status, of_write
from octavo_operator.events.strangers import Strangers
from octavo_operator.kinds import Ref
from octavo_operator.service import Key

CHAT = Key("demo", "chat")
WORKLOAD = Ref(kinds.DEPLOYMENT, "chat")


def status(
    ready: str = "PodsNotReady", pods: dict[str, str] | None = None, **others: tuple[str, str]
) -> dict[str, Any]:
    """A status with that reason of Ready, reasons of pods by name, and conditions (status, reason)."""
    known = {"Ready": ("False", ready), **others}
    conditions = [
        {"type": kind, "status": value, "reason": reason, "message": f"about {kind}"}
        for kind, (value, reason) in known.items()
    ]
    return {"conditions": conditions, "pods": [{"name": name, "reason": text} for name, text in (pods or {}).items()]}


@pytest.mark.parametrize(
    ("before", "after", "notes"),
    [
        pytest.param({}, status(), [], id="a new service on its way"),
        pytest.param(status(), status("AllReady"), [Note("Normal", "Ready", "about Ready")], id="ready"),
        pytest.param(status("AllReady"), status("AllReady"), [], id="still ready"),
        pytest.param(status(), status("Suspended"), [Note("Normal", "Suspended", "about Ready")], id="suspended"),
        pytest.param(status(), status("PodsRefused"), [Note("Warning", "PodsRefused", "about Ready")], id="quota"),
        pytest.param(
            status(),
            status("BadSource", Stalled=("True", "BadSource")),
            [Note("Warning", "BadSource", "about Ready")],
            id="stalled",
        ),
        pytest.param(
            status(pods={"a": "Loading: weights"}),
            status(pods={"a": "OOMKilled (exit code 137): more"}),
            [Note("Warning", "OOMKilled", "a: OOMKilled (exit code 137): more", "a")],
            id="a pod in trouble",
        ),
        pytest.param(
            status(pods={"a": "Unschedulable: 1 node"}),
            status(pods={"a": "Unschedulable: 2 nodes"}),
            [],
            id="the same trouble in other words",
        ),
        pytest.param(
            status(),
            status(pods=dict.fromkeys("abc", "Unschedulable: no room")),
            [Note("Warning", "Unschedulable", "a (and 2 more): Unschedulable: no room", "a")],
            id="several at once",
        ),
        pytest.param(
            status(pods={"a": "Starting: not yet"}),
            status(pods={"a": "Terminating: finishing", "b": "Warming: up", "c": ""}),
            [],
            id="pods that come and go",
        ),
        pytest.param(
            status(pods={"a": ""}),
            status(pods={"a": "exit code 3"}),
            [Note("Warning", "Exited", "a: exit code 3", "a")],
            id="a pod that ended",
        ),
        pytest.param(
            status(Degraded=("False", "EnoughMemory")),
            status(Degraded=("True", "CapLength")),
            [Note("Warning", "Degraded", "about Degraded")],
            id="degraded",
        ),
        pytest.param(
            status(Degraded=("True", "CapLength")),
            status(Degraded=("False", "EnoughMemory")),
            [Note("Normal", "DegradedOver", "about Degraded")],
            id="no longer degraded",
        ),
        pytest.param({}, status(Degraded=("False", "NoPodAnswers")), [], id="never was"),
        pytest.param(
            status(RoutingReady=("Unknown", "Waiting")),
            status(RoutingReady=("False", "NotServed")),
            [Note("Warning", "NotServed", "about RoutingReady")],
            id="a feature that fails",
        ),
    ],
)
def test_tells_what_changed_in_the_status(before: dict[str, Any], after: dict[str, Any], notes: list[Note]) -> None:
    assert of_status(before, after) == notes


def workload(replicas: int = 1, image: str = "octavo:1", **managers: dict[str, Any]) -> dict[str, Any]:
    entries = [{"manager": manager, "fieldsV1": fields, "subresource": ""} for manager, fields in managers.items()]
    return {
        "metadata": {"name": "chat", "managedFields": entries},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "runtime", "image": image}]}}},
    }


IMAGE_FIELD: dict[str, Any] = {
    "f:spec": {
        "f:template": {"f:spec": {"f:containers": {'k:{"name":"runtime"}': {"f:image": {}}}}},
        "f:paused": {},
    }
}
IMAGE_PATH = "spec.template.spec.containers[name=runtime].image"


@pytest.mark.parametrize(
    ("before", "paths", "notes"),
    [
        pytest.param(None, ["all of it"], [], id="made"),
        pytest.param(
            workload(replicas=3), ["spec.replicas"], [Note("Normal", "Scaled", "from 3 to 1 pods")], id="scaled"
        ),
        pytest.param(
            workload(image="octavo:0"),
            [IMAGE_PATH],
            [Note("Normal", "RollingOut", f"the pods are replaced, for {IMAGE_PATH} changed; why not")],
            id="rolled",
        ),
        pytest.param(
            workload(image="evil:1", kubectl=IMAGE_FIELD),
            [IMAGE_PATH],
            [Note("Warning", "PutBack", f"kubectl changed {IMAGE_PATH} of the Deployment chat; it was put back")],
            id="changed by hand",
        ),
        pytest.param(workload(), ["metadata.labels.version"], [], id="nothing that anybody sees"),
    ],
)
def test_tells_what_was_done_to_a_child(before: dict[str, Any] | None, paths: list[str], notes: list[Note]) -> None:
    assert of_write(Write(WORKLOAD, workload(), before, paths), "why not") == notes


def test_who_sets_fields_of_a_child_is_told_once() -> None:
    strangers = Strangers()
    alone, joined = {WORKLOAD: workload(helm={})}, {WORKLOAD: workload(helm={}, kubectl={})}
    assert strangers.notes(CHAT, alone) == [], "it was there before this operator"
    [note] = strangers.notes(CHAT, joined)
    assert (note.reason, note.text) == (
        "ForeignFields",
        "kubectl set fields of the Deployment chat; they stay until it removes them",
    )
    assert strangers.notes(CHAT, joined) == []


def test_a_child_that_is_new_has_no_strangers_yet() -> None:
    strangers = Strangers()
    strangers.notes(CHAT, {})
    assert strangers.notes(CHAT, {WORKLOAD: workload(helm={})}) == []
