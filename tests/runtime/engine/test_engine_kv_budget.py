"""An engine whose sequences hold less than their history computes what the model would that may not look at what was evicted."""

from pathlib import Path

import pytest
import torch
import transformers

from octavo_runtime.config import ConfigError
from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.request import Sequence
from octavo_runtime.messages import AddRequest
from tests.runtime.engine.tiny_engine import PAGE, SEEDED, Alone, MakeEngine, ask, finish, make_engine, prompt
from tests.runtime.models import save_tiny_model

BUDGET = 5 * PAGE


class Watched:
    """Runs one request; `seen[i]` are the positions that token i could look at when it was computed."""

    def __init__(self, engine: Engine, request: AddRequest) -> None:
        engine.add(request)
        (sequence,) = engine.scheduler._life.requests[request.id].sequences
        self.seen: list[list[int]] = []
        self._pages: list[int] = []
        self._kept: list[int] = []  # positions, as they lie in the table's slots
        while sequence.state.value != "finished":
            plan = engine.plan()
            assert plan is not None
            self._look(sequence, plan.run[0].start, plan.run[0].count)
            engine.submit(plan)
            engine.collect()
        self.tokens = sequence.tokens

    def _look(self, sequence: Sequence, start: int, count: int) -> None:
        taken = -(-sequence.slots // PAGE) - -(-(sequence.slots - count) // PAGE)
        left = sequence.pages[: len(sequence.pages) - taken]
        gone = [place for place, page in enumerate(self._pages) if page not in left]
        if gone:
            slots = {slot for place in gone for slot in range(place * PAGE, (place + 1) * PAGE)}
            self._kept = [at for slot, at in enumerate(self._kept) if slot not in slots]
        self._pages = list(sequence.pages)
        for position in range(start, start + count):
            self._kept.append(position)
            self.seen.append(list(self._kept))


@pytest.mark.parametrize("length", [20, 3 * BUDGET], ids=["answer over budget", "prompt over budget"])
def test_answers_are_those_of_a_model_that_cannot_look_at_what_was_evicted(
    new_engine: MakeEngine, reference: transformers.PreTrainedModel, length: int
) -> None:
    run = Watched(new_engine(), ask("r", prompt("budget", length), max_tokens=100, kv_budget_tokens=BUDGET))
    assert max(len(seen) for seen in run.seen) == BUDGET
    count = len(run.seen)
    mask = torch.full((1, 1, count, count), -torch.inf)
    for row, seen in enumerate(run.seen):
        mask[0, 0, row, seen] = 0.0
    with torch.inference_mode():
        logits = reference(torch.tensor([run.tokens[:count]]), attention_mask=mask).logits[0, length - 1 :]
    drawn = torch.tensor(run.tokens[length:])
    lacking = logits.amax(-1) - logits.gather(1, drawn[:, None])[:, 0]
    assert lacking.max() < 1e-3


def test_a_budget_that_is_not_reached_changes_nothing(new_engine: MakeEngine, alone: Alone) -> None:
    request = ask("r", prompt("small", 30), SEEDED, kv_budget_tokens=BUDGET)
    assert finish(new_engine(), [request]).of("r") == [alone(ask("r", prompt("small", 30), SEEDED))]


def test_company_with_and_without_budgets_does_not_mix(new_engine: MakeEngine, alone: Alone) -> None:
    """Memory is short as well: some are preempted and computed again."""
    requests = [
        ask(f"r{index}", prompt(f"p{index}", 40 + 30 * index), max_tokens=60, kv_budget_tokens=budget)
        for index, budget in enumerate((None, BUDGET, None, BUDGET + PAGE))
    ]
    answers = finish(new_engine(pages=24), requests)
    for request in requests:
        if request.kv_budget_tokens is None:
            assert answers.of(request.id) == [alone(request)]
        assert answers.reasons[request.id, 0] == "length"
    assert [bool(answers.ends[one.id, 0].degraded) for one in requests] == [False, True, False, True]


def test_a_service_has_a_budget_for_all(new_engine: MakeEngine) -> None:
    engine = new_engine(pages=12, kv_budget_tokens=BUDGET)
    answers = finish(engine, [ask(f"r{index}", prompt(f"p{index}", 300), max_tokens=20) for index in range(4)])
    assert [len(answers.of(f"r{index}")[0]) for index in range(4)] == [20] * 4
    assert max(stats.blocks_used for stats in answers.steps) <= 12


def test_a_service_s_budget_that_cannot_be_is_refused(new_engine: MakeEngine) -> None:
    with pytest.raises(ConfigError, match="--kv-budget-tokens 63 is less than 4 blocks of 16 tokens: give at least 64"):
        new_engine(kv_budget_tokens=63)


def test_a_model_with_a_sliding_window_has_no_budgets(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, "mistral", sliding_window=64)
    with pytest.raises(ConfigError, match="--kv-budget-tokens: this model's layers have a sliding window"):
        make_engine(folder, kv_budget_tokens=BUDGET)
