"""Sequences that hold less than their history: never more pages than their budget, their own tokens in order, nothing of it found
by others, and told at their end."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_runtime.engine.admission import Limits, Queued, kv_budget, refusal
from octavo_runtime.messages import AddRequest, BeamSearch
from tests.runtime.engine.paper import GREEDY, Paper, alone, reasons
from tests.runtime.engine.paper_runner import attention_to

pytestmark = pytest.mark.usefixtures("each_depth")

PAGE = 4
BUDGET = 6 * PAGE  # the sink, four between, one recent page


def step_with_bounds(paper: Paper, most_pages: int) -> None:
    paper.step()
    for sequence in paper.scheduler._life.batch:
        assert len(sequence.pages) <= most_pages


@pytest.mark.parametrize(("prompt", "output"), [(3, 90), (25, 40), (80, 30)], ids=["answer", "both", "prompt"])
def test_a_sequence_never_holds_more_than_its_budget(prompt: int, output: int) -> None:
    paper = Paper(pages=40, context=128, budget=64)
    paper.add("r", prompt, output, kv_budget_tokens=BUDGET + 3)
    while not paper.idle:
        step_with_bounds(paper, 6)
    paper.settle()
    assert reasons(paper) == {"r": "length"}
    assert len(paper.tokens["r"]) == output
    assert paper.stats.blocks_used == 0


def test_within_its_budget_it_answers_as_without() -> None:
    paper = Paper()
    paper.add("r", 10, 14, kv_budget_tokens=BUDGET)
    paper.run()
    assert paper.tokens == alone("r", 10, 14)
    assert paper.finished["r"].degraded == []


def test_a_context_larger_than_the_pool_is_answered() -> None:
    paper = Paper(pages=8, context=200)
    paper.add("r", 120, 60, kv_budget_tokens=BUDGET)
    paper.run()
    assert reasons(paper) == {"r": "length"}
    assert len(paper.tokens["r"]) == 60


def test_the_pages_that_got_least_attention_go() -> None:
    paper = Paper(pages=40, context=128, budget=64, caching=False)
    paper.add("r", BUDGET, 8, kv_budget_tokens=BUDGET)
    paper.step_until(lambda: len(paper.tokens.get("r", [])) > 0)
    sequence = paper.scheduler._life.batch.first
    assert sequence is not None
    before = list(sequence.pages)
    paper.step_until(lambda: sequence.evicted > 0)
    least = min(before[1:5], key=attention_to)
    assert sequence.pages[:5] == [page for page in before if page != least]


def test_what_is_computed_after_an_eviction_is_found_by_nobody() -> None:
    paper = Paper(pages=40, context=128)
    paper.add("first", [1] * 60, output=2, kv_budget_tokens=BUDGET)
    paper.run()
    assert paper.scheduler.pool.used == 0
    paper.add("same", [1] * 60, output=2)
    paper.run()
    assert 0 < paper.cached["same"] <= BUDGET
    assert paper.tokens["same"] == alone("same", [1] * 60, 2)["same"]


def test_it_begins_with_no_more_of_a_cached_prefix_than_leaves_room_to_weigh_it() -> None:
    paper = Paper(pages=40, context=128)
    paper.add("whole", [1] * 60, output=2)
    paper.run()
    paper.add("r", [1] * 60, output=2, kv_budget_tokens=BUDGET)
    paper.run()
    assert paper.cached["r"] == BUDGET - PAGE


def test_more_sequences_run_at_once_when_they_hold_less() -> None:
    most = []
    for budget in (None, BUDGET):
        paper = Paper(pages=40, context=128, seqs=8, budget=64)
        for index in range(8):
            paper.add(f"r{index}", 60, 40, kv_budget_tokens=budget)
        running = 0
        while not paper.idle:
            paper.step()
            running = max(running, paper.stats.running)
        most.append(running)
    assert most == [1, 6]


def test_its_end_tells_what_was_evicted() -> None:
    paper = Paper(pages=40, context=128)
    paper.add("r", 60, 12, kv_budget_tokens=BUDGET)
    paper.run()
    assert paper.stats.evicted_tokens_total == 48
    assert paper.finished["r"].degraded == [f"kv_budget: 48 tokens of its history were evicted to stay within {BUDGET}"]


def test_a_preempted_one_is_computed_again_and_told() -> None:
    paper = Paper(pages=13, context=128, budget=64, caching=False)
    paper.mislead()
    paper.add("old", 4, 45)
    paper.add("r", 40, 40, kv_budget_tokens=BUDGET)
    paper.run(limit=400)
    assert paper.stats.preemptions_total > 0
    assert reasons(paper) == {"old": "length", "r": "length"}
    assert paper.tokens["old"] == alone("old", 4, 45)["old"]
    assert any("computed again" in note for note in paper.finished["r"].degraded)


def test_choices_fork_from_a_history_with_evictions() -> None:
    paper = Paper(pages=60, context=128, budget=64)
    paper.add("r", 50, 20, n=3, seed=5, kv_budget_tokens=BUDGET)
    while not paper.idle:
        step_with_bounds(paper, 6)
    assert [len(paper.tokens[name]) for name in ("r", "r/1", "r/2")] == [20, 20, 20]


@settings(max_examples=30, deadline=None)
@given(
    requests=st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 40), st.sampled_from([None, 16, 24, 40]), st.integers(1, 3)),
        min_size=1,
        max_size=5,
    ),
    pages=st.integers(26, 60),
    caching=st.booleans(),
)
def test_any_company_comes_to_its_end(
    requests: list[tuple[int, int, int | None, int]], pages: int, caching: bool
) -> None:
    """The runner on paper checks every read; those with their whole history answer as alone."""
    paper = Paper(pages=pages, context=101, caching=caching, budget=32)
    paper.mislead()
    for index, (prompt, output, budget, n) in enumerate(requests):
        paper.add(f"r{index}", prompt, output, n=n, kv_budget_tokens=budget)
    paper.run()
    for index, (prompt, output, budget, _) in enumerate(requests):
        if budget is None:
            assert paper.tokens[f"r{index}"] == alone(f"r{index}", prompt, output, context=101)[f"r{index}"]
    assert paper.stats.blocks_used == 0


@pytest.mark.parametrize(
    ("service", "fields", "pages"),
    [
        pytest.param(None, {}, None, id="nobody wants one"),
        pytest.param(200, {}, 12, id="the service's"),
        pytest.param(None, {"kv_budget_tokens": 100}, 6, id="the request's"),
        pytest.param(200, {"kv_budget_tokens": 100}, 6, id="the lesser of both"),
        pytest.param(100, {"kv_budget_tokens": 200}, 6, id="the lesser of both, the service's"),
        pytest.param(200, {"max_tokens": 182}, None, id="it never holds more"),
        pytest.param(200, {"max_tokens": 183}, 12, id="it holds one more"),
        pytest.param(200, {"beam": BeamSearch(2)}, None, id="beams hold all"),
    ],
)
def test_who_has_a_budget(service: int | None, fields: dict[str, object], pages: int | None) -> None:
    limits = Limits(1000, 20, 16, 100, 8, 100, kv_budget_tokens=service)
    request = AddRequest("r", [1] * 10, GREEDY, 0, **fields)  # type: ignore[arg-type]  # a table of fields
    budget = kv_budget(request, limits)
    assert (None if budget is None else budget.pages) == pages


@pytest.mark.parametrize(
    ("refused", "fields", "text"),
    [
        pytest.param(None, {"kv_budget_tokens": 63}, "'kv_budget_tokens' is 63, .* give at least 64", id="too little"),
        pytest.param("no", {"kv_budget_tokens": 64}, "'kv_budget_tokens': no: leave it out", id="not here"),
        pytest.param(None, {"kv_budget_tokens": 64, "beam": BeamSearch(2)}, "not for a beam search", id="beams"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(refused: str | None, fields: dict[str, object], text: str) -> None:
    limits = Limits(1000, 20, 16, 100, 8, 100, kv_budget_refused=refused)
    request = AddRequest("r", [1] * 10, GREEDY, 0, max_tokens=4, **fields)  # type: ignore[arg-type]  # a table of fields
    error = refusal(request, limits, Queued(0, 0, 1))
    assert error is not None
    assert error.param == "kv_budget_tokens"
    assert re.search(text, error.message)


def test_what_fits_within_its_budget_is_not_refused_for_its_length() -> None:
    request = AddRequest("r", [1] * 500, GREEDY, 0, max_tokens=100)
    small = Limits(1000, 20, 16, 100, 8, 100)
    assert refusal(request, small, Queued(0, 0, 1)) is not None
    assert refusal(request, Limits(1000, 20, 16, 100, 8, 100, kv_budget_tokens=320), Queued(0, 0, 1)) is None
