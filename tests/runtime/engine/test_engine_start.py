"""When and in what pieces a prompt is computed: whole prompts, and an idle engine that waits for company."""

import time
from pathlib import Path

import pytest

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.llm import LLM
from tests.runtime.engine.tiny_engine import SEEDED, Alone, Answers, MakeEngine, ask, finish, prompt, step

FIRST, SECOND = (ask(f"r{seed}", prompt(f"r{seed}", 30), SEEDED, 10, seed=seed) for seed in (1, 2))
LONGEST_MS = 60_000.0  # that the flag takes


@pytest.mark.parametrize(
    "flags", [pytest.param({}, id="the model's context"), pytest.param({"max_model_len": 101}, id="a flag's")]
)
def test_whole_prompts_need_a_budget_of_the_whole_context(new_engine: MakeEngine, flags: dict[str, object]) -> None:
    with pytest.raises(
        ConfigError, match=r"--no-chunked-prefill .* --max-num-batched-tokens 100 .*: raise it or lower --max-model-len"
    ):
        new_engine(chunked_prefill=False, max_num_batched_tokens=100, **flags)


def test_whole_prompts_are_computed_in_one_step_each(new_engine: MakeEngine, alone: Alone) -> None:
    requests = [ask(f"r{seed}", prompt(f"r{seed}", 70), SEEDED, 10, seed=seed) for seed in range(4)]
    engine = new_engine(chunked_prefill=False, max_num_batched_tokens=100, max_model_len=100)
    answers = finish(engine, requests)
    assert {stats.step_prompt_tokens for stats in answers.steps} == {0, 70}
    assert [answers.of(one.id)[0] for one in requests] == [alone(one) for one in requests]


def test_an_idle_engine_gathers_requests_until_a_batch_is_full(new_engine: MakeEngine, alone: Alone) -> None:
    engine, answers = new_engine(scheduler_delay_ms=LONGEST_MS, max_num_seqs=2), Answers()
    engine.add(FIRST)
    step(engine, answers)
    assert not step(engine, answers)
    assert 0 < engine.scheduler.gathering_s() <= LONGEST_MS / 1000
    together = finish(engine, [SECOND])
    assert together.steps[0].batch_size == 2
    assert [together.of(one.id)[0] for one in (FIRST, SECOND)] == [alone(FIRST), alone(SECOND)]


def test_an_abort_ends_the_gathering(new_engine: MakeEngine) -> None:
    engine = new_engine(scheduler_delay_ms=LONGEST_MS)
    engine.add(FIRST)
    assert engine.plan() is None
    engine.abort([FIRST.id])
    assert (engine.scheduler.gathering_s(), engine.scheduler.has_work) == (0.0, False)


def test_generate_waits_the_delay_and_answers_alike(tiny: Path, alone: Alone) -> None:
    llm = LLM(ServeConfig(str(tiny), dtype="float32", kv_cache_memory=8 << 20, scheduler_delay_ms=200.0))
    started_s = time.monotonic()
    completions = llm.generate([FIRST, SECOND])
    assert time.monotonic() - started_s >= 0.2
    assert [completion.token_ids for completion in completions] == [alone(FIRST), alone(SECOND)]
