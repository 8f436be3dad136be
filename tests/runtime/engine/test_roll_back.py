"""A step whose memory cannot be had leaves no trace: on paper at every moment, and for real under a limit of the kernel."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from octavo_runtime.engine.step_budget import RECOVERS_AFTER_S, StepBudget
from tests.runtime.engine.paper import Paper, alone, counts

DEPTHS = [pytest.param(0, id="depth 0"), pytest.param(1, id="depth 1")]


def fail(paper: Paper) -> int | None:
    """Plan a step and find no memory for it: the tokens that it would have had; None when there is none to plan."""
    if len(paper.flying) > paper.depth or paper.scheduler.plan() is None:
        return None
    paper.settle()
    tokens = paper.scheduler.roll_back()
    assert tokens is not None
    paper._runner._slots.clear()
    paper.audit()
    return tokens


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("seed", range(6))
def test_whichever_steps_fail_the_answers_are_the_same(depth: int, seed: int) -> None:
    """Forks, beams' pages, prompts that begin alike, preemptions: copies that a failed step was to make are not relied on."""
    chance = random.Random(seed)
    paper = Paper(pages=24, depth=depth, seqs=6)
    paper.mislead()
    asked: dict[str, tuple[list[int], int, int]] = {}
    for index in range(14):
        ids = [1] * chance.randrange(8) + [chance.randrange(10) for _ in range(chance.randrange(1, 14))]
        asked[f"r{index}"] = ids, chance.randrange(1, 20), 1 if chance.random() < 0.7 else 2
    for name, (ids, output, n) in asked.items():
        paper.add(name, ids, output, n=n)
    failures = 0
    while not paper.idle:
        if chance.random() < 0.2 and paper.scheduler.budget.tokens > 1:
            failures += fail(paper) is not None
        paper.step()
        paper.now_s += 10.0
    assert failures > 2
    expected: dict[str, list[int]] = {}
    for name, (ids, output, n) in asked.items():
        expected |= alone(name, ids, output, n=n)
    assert paper.tokens == expected
    assert paper.stats.blocks_used == 0
    assert paper.stats.failed_steps_total == failures


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_next_steps_are_half_as_large_and_grow_again(depth: int) -> None:
    paper = Paper(pages=60, depth=depth, budget=16)
    for name in "abc":
        paper.add(name, prompt=24, output=8)
    assert fail(paper) == 16
    assert sum(counts(paper.step())) == 8
    assert paper.stats.max_num_batched_tokens == 8
    fail(paper)
    fail(paper)
    assert max(sum(counts(paper.step())) for _ in range(12)) == 2
    paper.now_s += RECOVERS_AFTER_S
    paper.step()
    paper.step()
    assert paper.stats.max_num_batched_tokens == 4
    paper.run()
    assert paper.tokens == {name: alone(name, 24, 8)[name] for name in "abc"}


def test_decodes_take_turns_by_rank_when_steps_are_smaller_than_the_batch() -> None:
    paper = Paper(pages=60, budget=8)
    for name in "abcdef":
        paper.add(name, prompt=1, output=4)
    paper.step()
    assert len(paper.running) == 6
    fail(paper)
    fail(paper)
    assert counts(paper.step()) == [1, 1]
    paper.run()
    assert list(paper.finished) == list("abcdef")


def test_a_step_of_one_token_cannot_be_smaller() -> None:
    budget = StepBudget(3)
    assert [budget.failed(now_s) for now_s in (0.0, 1.0)] == [True, False]
    assert (budget.tokens, budget.failures_total) == (1, 1)
    for now_s, tokens in ((RECOVERS_AFTER_S - 1, 1), (RECOVERS_AFTER_S, 2), (RECOVERS_AFTER_S + 1, 2)):
        budget.look(now_s)
        assert budget.tokens == tokens
    budget.look(2 * RECOVERS_AFTER_S)
    assert budget.tokens == 3


@pytest.mark.parametrize(("ranks", "rank"), [pytest.param(1, 0, id="one rank"), pytest.param(2, 1, id="rank 1 of 2")])
def test_an_allocation_that_really_fails_is_tried_again_smaller(ranks: int, rank: int, tmp_path: Path) -> None:
    """The kernel refuses address space beyond what a rank has and a little: large steps find none, the answers are the same."""
    command = [
        sys.executable,
        "-m",
        "tests.runtime.engine.short_of_address_space",
        str(tmp_path),
        str(ranks),
        str(rank),
    ]
    child = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert child.returncode == 0, child.stderr
    told = json.loads(child.stdout.splitlines()[-1])
    assert told["failed_steps"] >= 1
    assert told["budget_tokens"] < told["asked_tokens"]
    assert told["same"]
    assert told["blocks_used"] == 0
    assert "no memory for a step of " in child.stderr
    assert (f"rank {rank} found no memory" in child.stderr) == (ranks > 1)
