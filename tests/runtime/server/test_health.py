import dataclasses

import pytest

from octavo_runtime.heartbeat import Phase, Pulse
from octavo_runtime.server.drain import DrainPhase
from octavo_runtime.server.health import Health, Signs, health, last_step_age_s

NOW_S = 1000.0
READY = Pulse(tick=5, tick_at_s=NOW_S - 0.1, step=4, phase="ready", percent=100, progress_at_s=NOW_S - 50)
LOADING = Pulse(
    tick=1, tick_at_s=NOW_S - 0.1, phase="loading", percent=40, progress_at_s=NOW_S - 1, reason="reading weights"
)


def signs(
    pulse: Pulse = READY,
    api_tick_at_s: float = NOW_S - 0.2,
    engine_up: bool = True,
    listening: bool = True,
    drain: DrainPhase = "serving",
) -> Signs:
    return Signs(pulse, NOW_S, api_tick_at_s, engine_up, listening, drain)


SLOW_STEP = dataclasses.replace(READY, tick_at_s=NOW_S - 100, planned_tokens=512, seconds_per_token=0.02)


@pytest.mark.parametrize(
    ("given", "phase", "live", "ready", "text"),
    [
        pytest.param(signs(), "ready", True, True, "", id="ready"),
        pytest.param(signs(dataclasses.replace(READY, phase="pressured")), "pressured", True, True, "", id="pressured"),
        pytest.param(signs(LOADING, engine_up=False), "loading", True, False, "40 %, reading weights", id="loading"),
        pytest.param(signs(listening=False), "warming", True, False, "port is not open", id="not listening"),
        pytest.param(signs(engine_up=False), "warming", True, False, "engine's answer", id="not connected"),
        pytest.param(signs(drain="settling"), "draining", True, True, "still answering", id="settling"),
        pytest.param(signs(drain="refusing"), "draining", True, False, "refused", id="refusing"),
        pytest.param(
            signs(api_tick_at_s=NOW_S - 31),
            "hung",
            False,
            False,
            "event loop has not moved for 31 s",
            id="API loop hung",
        ),
        pytest.param(
            signs(dataclasses.replace(READY, tick_at_s=NOW_S - 31)),
            "hung",
            False,
            False,
            "not moved for 31 s (step 4)",
            id="engine hung",
        ),
        pytest.param(signs(SLOW_STEP), "ready", True, True, "", id="a long step is no hang"),
        pytest.param(
            signs(dataclasses.replace(LOADING, progress_at_s=NOW_S - 301), engine_up=False),
            "hung",
            False,
            False,
            "no progress in loading for 301 s (at 40 %)",
            id="loading without progress",
        ),
        pytest.param(
            signs(drain="refusing", api_tick_at_s=NOW_S - 31),
            "hung",
            False,
            False,
            "event loop",
            id="hung while draining",
        ),
    ],
)
def test_verdict(given: Signs, phase: Phase, live: bool, ready: bool, text: str) -> None:
    verdict = health(given)
    assert verdict == Health(phase, given.pulse.percent, verdict.reason, live, ready)
    assert text in verdict.reason


def test_age_of_the_last_step_is_unknown_before_the_first() -> None:
    assert last_step_age_s(Pulse(), NOW_S) is None
    assert last_step_age_s(READY, NOW_S) == 0.1
