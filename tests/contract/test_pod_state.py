"""What the operator reads of a pod's `/state`, against what the runtime says there."""

import json
from typing import get_args

from octavo_operator import names
from octavo_operator.state.answer import PodState, parse
from octavo_runtime.config import ServeConfig
from octavo_runtime.heartbeat import Phase, Pulse
from octavo_runtime.messages import LADDER, Stats
from octavo_runtime.server.health import Health
from octavo_runtime.server.state import Serving, state

STATS = Stats(
    running=3,
    waiting=1,
    blocks_total=640,
    blocks_used=600,
    blocks_cached=0,
    slots_filled=0,
    batch_size=3,
    step_tokens=3,
    step_prompt_tokens=0,
    step_generated_tokens=3,
    busy_s_total=0.0,
    preemptions_total=0,
    max_num_seqs=8,
    pressure_level=2,
)


def test_phases_and_steps_have_the_same_names() -> None:
    assert get_args(Phase) == names.PHASES
    assert LADDER == names.LADDER


def test_the_operator_understands_a_pod_under_pressure() -> None:
    health = Health("pressured", 100, "level 2", live=True, ready=True)
    told = state(ServeConfig(model="file:///m.gguf", max_num_seqs=8), health, Pulse(), Serving(stats=STATS), 9.0)
    assert parse(json.dumps(told).encode()) == PodState(
        "pressured", 100, "level 2", 2, LADDER[:2], blocks_total=640, load=4 / 8
    )


def test_the_operator_understands_a_pod_whose_engine_loads_again() -> None:
    health = Health("loading", 12, "12 %, weights", live=True, ready=False)
    serving = Serving(engine_restarts=1, engine_last_end="killed by signal 9")
    told = state(ServeConfig(model="file:///m.gguf"), health, Pulse(progress_at_s=5.0), serving, 9.0)
    assert parse(json.dumps(told).encode()) == PodState(
        "loading", 12, "12 %, weights", unmoved_s=4.0, ended="killed by signal 9"
    )
