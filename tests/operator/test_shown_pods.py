"""Pods as the status shows them, from what Kubernetes and they themselves say."""

import dataclasses
from typing import Any

import pytest

from octavo_operator.observed import PodView
from octavo_operator.state.reading import Reading
from octavo_operator.state.shown import shown

STARTING = PodView("chat-1", False, False, "Starting: the runtime does not answer yet", uid="u", running=True)
LOADING = dataclasses.replace(STARTING, reason="Loading: the model is being loaded or warmed up", started=True)
READY = dataclasses.replace(LOADING, ready=True, reason="")
PENDING = PodView("chat-1", False, False, "Unschedulable: no room", uid="u")
CRASHED = PodView("chat-1", False, False, "CrashLoopBackOff: exit code 2", uid="u", failed=True)
ENDING = dataclasses.replace(READY, ready=False, ending=True, reason="Terminating: finishing its requests")
LOST = Reading("unknown")


def one(pod: PodView, reading: Reading | None, **before: Any) -> PodView:
    live = {"pods": [{"name": "chat-1", **before}]} if before else {}
    [found] = shown([pod], {"u": reading} if reading else {}, live)
    return found


@pytest.mark.parametrize(
    ("pod", "reading", "phase", "reason"),
    [
        pytest.param(PENDING, None, "Pending", PENDING.reason, id="no node"),
        pytest.param(CRASHED, LOST, "Failed", CRASHED.reason, id="crashed"),
        pytest.param(ENDING, Reading("ready"), "Draining", ENDING.reason, id="ending"),
        pytest.param(STARTING, None, "Starting", STARTING.reason, id="not asked yet"),
        pytest.param(STARTING, LOST, "Starting", STARTING.reason, id="not up yet"),
        pytest.param(LOADING, LOST, "Unknown", LOADING.reason, id="was up and does not answer"),
        pytest.param(
            STARTING, Reading("loading", 50, "reading weights"), "Loading", "Loading (50 %): reading weights", id="half"
        ),
        pytest.param(LOADING, Reading("warming"), "Warming", "Warming: up", id="no more is told"),
        pytest.param(
            LOADING,
            Reading("loading", 25, "downloading", stalled_s=120),
            "Loading",
            "Loading (25 %): downloading; no progress for over 2 min",
            id="it does not move",
        ),
        pytest.param(
            dataclasses.replace(LOADING, reason=f"{LOADING.reason} again after exit code 1: no memory"),
            Reading("loading", doing="weights"),
            "Loading",
            "Loading: weights; again after exit code 1: no memory",
            id="after a death",
        ),
        pytest.param(
            dataclasses.replace(LOADING, reason="CrashLoopBackOff: exit code 2"),
            Reading("loading"),
            "Loading",
            "CrashLoopBackOff: exit code 2",
            id="one text all through a loop of crashes",
        ),
        pytest.param(
            LOADING,
            Reading("loading", 25, ended="killed by signal 9"),
            "Loading",
            "EngineEnded: killed by signal 9; loading again (25 %)",
            id="the engine ended and the container lives",
        ),
        pytest.param(
            LOADING, Reading("hung", doing="the loop has not moved"), "Hung", "Hung: the loop has not moved", id="hung"
        ),
        pytest.param(READY, Reading("warming"), "Ready", "", id="the probe knows more"),
        pytest.param(READY, Reading("pressured"), "Pressured", "", id="pressed"),
        pytest.param(
            READY,
            LOST,
            "Unknown",
            "Unknown: the operator cannot read its /state on port 8001; does a NetworkPolicy keep it out?",
            id="ready and out of reach",
        ),
        pytest.param(
            dataclasses.replace(READY, serving=False), LOST, "Ready", "", id="one of a group that is never asked"
        ),
    ],
)
def test_says_phase_and_reason(pod: PodView, reading: Reading | None, phase: str, reason: str) -> None:
    found = one(pod, reading)
    assert (found.phase, found.reason) == (phase, reason)
    assert found.ready is pod.ready, "what a pod says of itself never changes whether it is ready"


def test_says_level_and_blocks_once_there_are_any() -> None:
    assert one(READY, Reading("ready", blocks_total=640)).pressure_level == 0
    assert one(READY, Reading("ready", blocks_total=640)).blocks_total == 640
    assert one(LOADING, Reading("loading")).pressure_level is None


BEFORE = {"phase": "Pressured", "pressureLevel": 3, "blocksTotal": 640}


def test_a_new_operator_changes_nothing_before_it_has_asked() -> None:
    found = one(READY, None, **BEFORE)
    assert (found.phase, found.pressure_level, found.blocks_total) == ("Pressured", 3, 640)
    found = one(LOADING, None, phase="Warming", reason="Warming (50 %): shapes")
    assert (found.phase, found.reason) == ("Warming", "Warming (50 %): shapes")


def test_a_pod_that_became_ready_meanwhile_is_not_loading() -> None:
    assert one(READY, None, phase="Loading", reason="Loading: …").phase == "Ready"


def test_blocks_of_a_pod_out_of_reach_stay_known() -> None:
    assert one(READY, LOST, **BEFORE).blocks_total == 640
