"""The engine with a runner that lets one step be planned ahead: the tiny model, its draws kept back until they are collected."""

import collections
import time

import pytest

from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.pipeline import Pipeline, Runner
from octavo_runtime.engine.plan import StepPlan, StepResult
from octavo_runtime.messages import AddRequest, BeamSearch
from tests.runtime.engine.tiny_engine import (
    GREEDY,
    SEEDED,
    Alone,
    Answers,
    MakeEngine,
    ask,
    assert_idle,
    finish,
    make_outputs_look_short,
    prompt,
    step,
)

LATENCY_S = 0.005


class RunnerAhead:
    """Depth 1 on a runner of depth 0, which has computed and drawn at the end of `sample`."""

    depth = 1

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._results: collections.deque[StepResult] = collections.deque()
        self.most = 0  # steps in flight at once

    def submit(self, plan: StepPlan) -> None:
        self._runner.submit(plan)

    def sample(self, step: int, masks: None = None) -> None:
        self._runner.sample(step, masks)
        self._results.append(self._runner.collect(step))
        self.most = max(self.most, len(self._results))

    def collect(self, step: int) -> StepResult:
        result = self._results.popleft()
        assert result.step == step
        return result

    def reset(self) -> None:
        assert not self._results
        self._runner.reset()

    def abandon(self, step: int) -> None:
        self._results.clear()
        self._runner.abandon(step)


def ahead(engine: Engine) -> RunnerAhead:
    """Let the engine plan ahead from now on."""
    runner = RunnerAhead(engine._pipeline._runner)
    engine._pipeline = Pipeline(runner)
    engine.warm_up()
    assert runner.most == 2
    return runner


def mixed(end: int) -> list[AddRequest]:
    """Two lengths of prompts each, greedy and seeded, one that ends on an id, choices, beams."""
    return [
        ask("greedy", prompt("a", 40), GREEDY, 24),
        ask("seeded", prompt("b", 9), SEEDED, 30, seed=4),
        ask("stopped", prompt("a", 33), GREEDY, 40, eos_ids=[end]),
        ask("choices", prompt("c", 21), SEEDED, 14, n=3, seed=6),
        ask("beams", prompt("d", 20), GREEDY, 8, n=2, beam=BeamSearch(3)),
    ]


@pytest.mark.parametrize("pages", [pytest.param(256, id="memory enough"), pytest.param(9, id="some preempted")])
def test_answers_are_those_of_one_step_at_a_time(new_engine: MakeEngine, alone: Alone, pages: int) -> None:
    end = alone(ask("a", prompt("a", 33), GREEDY, 12))[9]
    flags: dict[str, object] = {"max_num_batched_tokens": 48, "max_num_seqs": 8, "audit": True}
    plain, planned_ahead = new_engine(pages, **flags), new_engine(pages, **flags)
    ahead(planned_ahead)
    for engine in (plain, planned_ahead):
        make_outputs_look_short(engine)
    want, got = finish(plain, mixed(end)), finish(planned_ahead, mixed(end))
    assert got.tokens == want.tokens
    assert got.reasons == want.reasons
    if pages == 9:
        assert got.steps[-1].preemptions_total > 0


def test_an_abort_gives_pages_back_within_two_steps(new_engine: MakeEngine, alone: Alone) -> None:
    engine, answers = new_engine(), Answers()
    ahead(engine)
    other, later = ask("other", prompt("other", 20), SEEDED, 16, seed=11), ask("next", prompt("a", 30), SEEDED, 8)
    for request in (ask("ended", prompt("a", 40), SEEDED, 24), other):
        engine.add(request)
    for _ in range(4):
        assert step(engine, answers)
    used = engine.scheduler.pool.used
    engine.abort(["ended"])
    assert engine.scheduler.pool.used == used
    for _ in range(2):
        assert step(engine, answers)
    assert engine.scheduler.pool.used == 2
    assert len(answers.tokens["ended", 0]) == 4
    rest = finish(engine, [later])
    assert answers.tokens["other", 0] + rest.of("other")[0] == alone(other)
    assert rest.of("next") == [alone(later)]


def test_settling_collects_what_is_in_flight_for_nobody(new_engine: MakeEngine) -> None:
    engine = new_engine()
    ahead(engine)
    engine.add(ask("r", prompt("a", 20)))
    assert engine.step() is not None
    engine.abort(["r"])
    assert engine.oldest is not None
    engine.settle()
    assert_idle(engine)


class SlowRunner:
    """A device that takes `LATENCY_S` for a step, one after another."""

    depth = 1

    def __init__(self) -> None:
        self._ready_s: collections.deque[float] = collections.deque()

    def submit(self, plan: StepPlan) -> None:
        self._ready_s.append(max(time.monotonic(), *self._ready_s, 0.0) + LATENCY_S)

    def sample(self, step: int, masks: None = None) -> None: ...

    def collect(self, step: int) -> StepResult:
        while time.monotonic() < self._ready_s[0]:
            time.sleep(LATENCY_S / 10)
        self._ready_s.popleft()
        return StepResult(step, [])

    def reset(self) -> None: ...

    def abandon(self, step: int) -> None: ...


def test_time_with_two_steps_in_flight_counts_once() -> None:
    pipeline, started_s = Pipeline(SlowRunner()), time.monotonic()
    for number in range(1, 6):
        pipeline.submit(StepPlan(number, [], [], [], [], [], []))
        if pipeline.full:
            assert pipeline.oldest is not None
            assert pipeline.collect().step == pipeline.oldest.step - 1
    pipeline.collect()
    assert pipeline.oldest is None
    assert 5 * LATENCY_S <= pipeline.busy_s <= time.monotonic() - started_s
    busy_s = pipeline.busy_s
    time.sleep(LATENCY_S)
    assert pipeline.busy_s == busy_s
