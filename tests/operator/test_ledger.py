"""How often things are told."""

import pytest

from octavo_operator.events.ledger import BURST, REFILL_S, SERIES_S, Ledger, Subject
from octavo_operator.events.notes import Note
from octavo_operator.observed import PodView
from octavo_operator.service import Key

CHAT = Subject(Key("demo", "chat"), "u-chat", (PodView("chat-1", False, False, "", uid="u-1"),))
CRASH = Note("Warning", "CrashLoopBackOff", "chat-1: CrashLoopBackOff: exit code 2", "chat-1")
NOW, LATER = "2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:00.000000Z"


class Clock:
    now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return Ledger(clock, "operator-1")


def test_an_event_is_about_the_service_and_its_pod(ledger: Ledger) -> None:
    event = ledger.event(CHAT, CRASH, NOW)
    assert event is not None
    name = event["metadata"].pop("name")
    assert name.startswith("chat.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "demo"},
        "eventTime": NOW,
        "reportingController": "octavo-operator",
        "reportingInstance": "operator-1",
        "action": "Reconcile",
        "type": "Warning",
        "reason": "CrashLoopBackOff",
        "note": "chat-1: CrashLoopBackOff: exit code 2",
        "regarding": {
            "apiVersion": "serving.octavo.dev/v1alpha1",
            "kind": "InferenceService",
            "namespace": "demo",
            "name": "chat",
            "uid": "u-chat",
        },
        "related": {"apiVersion": "v1", "kind": "Pod", "namespace": "demo", "name": "chat-1", "uid": "u-1"},
    }


def test_a_pod_that_is_gone_is_not_referred_to(ledger: Ledger) -> None:
    event = ledger.event(Subject(CHAT.key, CHAT.uid), CRASH, NOW)
    assert event is not None
    assert "related" not in event


def test_the_same_again_counts_up_one_event(ledger: Ledger, clock: Clock) -> None:
    first = ledger.event(CHAT, CRASH, NOW)
    clock.now_s += SERIES_S - 1.0
    again = ledger.event(CHAT, CRASH, LATER)
    assert first is not None
    assert again == {**first, "series": {"count": 2, "lastObservedTime": LATER}}


def test_the_same_much_later_is_another_event(ledger: Ledger, clock: Clock) -> None:
    first = ledger.event(CHAT, CRASH, NOW)
    clock.now_s += SERIES_S
    again = ledger.event(CHAT, CRASH, LATER)
    assert first is not None
    assert again is not None
    assert again["metadata"]["name"] != first["metadata"]["name"]
    assert "series" not in again


def test_a_service_that_tells_too_much_is_cut_short_and_others_are_not(ledger: Ledger, clock: Clock) -> None:
    notes = [Note("Warning", "Exited", f"chat-{number}: exit code 1") for number in range(BURST + 5)]
    told = [ledger.event(CHAT, note, NOW) for note in notes]
    assert sum(event is not None for event in told) == BURST
    assert ledger.event(Subject(Key("demo", "other"), "u-other"), CRASH, NOW) is not None
    clock.now_s += REFILL_S
    assert ledger.event(CHAT, CRASH, NOW) is not None
    assert ledger.event(CHAT, CRASH, NOW) is None


def test_long_texts_are_cut_to_what_an_event_holds(ledger: Ledger) -> None:
    event = ledger.event(CHAT, Note("Warning", "R" * 300, "x" * 3000), NOW)
    assert event is not None
    assert (len(event["reason"]), len(event["note"])) == (128, 1024)


def test_what_is_told_again_is_remembered_and_what_is_older_forgotten(ledger: Ledger, clock: Clock) -> None:
    once = Note("Normal", "Ready", "the pod is ready")
    ledger.event(CHAT, CRASH, NOW)
    ledger.event(CHAT, once, NOW)
    clock.now_s += SERIES_S - 1
    ledger.event(CHAT, CRASH, LATER)
    clock.now_s += 1
    again, anew = ledger.event(CHAT, CRASH, LATER), ledger.event(CHAT, once, LATER)
    assert again is not None
    assert again["series"]["count"] == 3
    assert anew is not None
    assert "series" not in anew
