"""What a step is made of, how sequences end, and that nothing is left behind.

The scheduler with a runner on paper (`paper_runner.py`), which checks at every step that each sequence reads its own history.
"""

import pytest

from octavo_runtime.engine.block_pool import PoolError
from octavo_runtime.messages import Output
from tests.runtime.engine.paper import Paper, alone, counts, reasons

pytestmark = pytest.mark.usefixtures("each_depth")

TOKEN = 7


def always(tokens: list[int], seed: int) -> int:
    return TOKEN


def test_prompts_are_computed_as_the_budget_allows() -> None:
    paper = Paper(budget=16)
    for name, prompt in (("a", 10), ("b", 10), ("c", 10)):
        paper.add(name, prompt, output=3)
    assert counts(paper.step()) == [8, 8]
    assert counts(paper.step()) == [2, 2, 10]
    assert counts(paper.step()) == [1, 1, 1]


def test_decodes_come_first_in_a_plan() -> None:
    paper = Paper(budget=16)
    paper.add("long", prompt=40, output=1, priority=-1)
    paper.add("short", prompt=2, output=9)
    paper.step()
    assert counts(paper.step()) == [1, 15]


def test_runs_no_more_sequences_than_there_are_slots() -> None:
    paper = Paper(seqs=2)
    for name in "abc":
        paper.add(name, prompt=2, output=2)
    paper.step()
    assert (paper.stats.running, paper.stats.waiting) == (2, 1)
    paper.run()
    assert set(paper.finished) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("fields", "reason", "stop", "tokens"),
    [
        pytest.param({"max_tokens": 9, "eos_ids": [TOKEN]}, "stop", None, 1, id="eos"),
        pytest.param({"max_tokens": 9, "stop_ids": [3, TOKEN]}, "stop", TOKEN, 1, id="stop id"),
        pytest.param({"max_tokens": 9, "eos_ids": [TOKEN], "stop_ids": [TOKEN]}, "stop", None, 1, id="eos wins"),
        pytest.param(
            {"max_tokens": 9, "eos_ids": [TOKEN], "min_tokens": 3}, "stop", None, 3, id="not before min_tokens"
        ),
        pytest.param({"max_tokens": 5}, "length", None, 5, id="max_tokens"),
        pytest.param({"max_tokens": 1}, "length", None, 1, id="one token"),
        pytest.param({}, "length", None, 10, id="the context is full"),
        pytest.param({"max_tokens": 50}, "length", None, 10, id="before max_tokens"),
    ],
)
def test_ends_on_ids_and_on_length(fields: dict[str, object], reason: str, stop: int | None, tokens: int) -> None:
    paper = Paper(context=12, draw=always)
    paper.add("r", 2, **fields)  # type: ignore[arg-type]  # a table of fields
    paper.run()
    assert paper.tokens["r"] == [TOKEN] * tokens
    assert paper.finished["r"] == Output("r", [TOKEN], 0, reason, stop)  # type: ignore[arg-type]  # a table


def test_the_last_sequence_ends_with_length_when_it_fills_the_pool() -> None:
    paper = Paper(pages=3, page_size=4, context=64)
    paper.add("open", prompt=6)
    paper.run()
    assert reasons(paper) == {"open": "length"}
    assert len(paper.tokens["open"]) == 7  # 12 slots hold 6 + 6 tokens; the last one drawn needs none


def test_leaves_nothing_behind() -> None:
    paper = Paper()
    for index in range(20):
        paper.add(str(index), prompt=1 + index, output=1 + index % 5)
    paper.run()
    stats = paper.stats
    assert len(paper.finished) == 20
    assert (stats.running, stats.waiting, stats.blocks_used, stats.slots_filled) == (0, 0, 0, 0)
    assert (stats.predicted_peak_blocks, stats.predicted_deficit_blocks) == (0, 0)


def test_counts_what_a_step_did() -> None:
    paper = Paper(budget=16, depth=0)
    paper.add("a", prompt=6, output=3)
    paper.step()
    paper.add("b", prompt=20, output=3)
    paper.step()
    stats = paper.stats
    assert (stats.batch_size, stats.step_tokens, stats.step_prompt_tokens, stats.step_generated_tokens) == (
        2,
        16,
        15,
        1,
    )
    assert (stats.blocks_used, stats.slots_filled) == (2 + 4, 7 + 15)


def test_counts_prompts_and_hits_of_the_prefix_cache() -> None:
    paper = Paper()
    for name in ("first", "again"):
        paper.add(name, [1, 2, 3, 4, 5, 6], output=1)
        paper.run()
    assert (paper.stats.prefix_queries_tokens_total, paper.stats.prefix_hits_tokens_total) == (12, 5)
    assert paper.cached == {"first": 0, "again": 5}
    assert sum(plan.tokens for plan in paper.plans) == 7


def test_forecasts_are_compared_with_what_came() -> None:
    paper = Paper(draw=always)
    paper.add("short", 2, output=20, eos_ids=[TOKEN])
    paper.step()
    assert paper.stats.step_forecast_ratios == [pytest.approx(1 / 20)]
    paper.step()
    assert paper.stats.step_forecast_ratios == []


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("prompt", [pytest.param(8, id="full pages"), pytest.param(10, id="inside a page")])
def test_a_choice_is_the_request_alone_with_the_next_seed(n: int, prompt: int) -> None:
    """Seeds wrap at 64 bits."""
    seed = 2**64 - 2
    paper = Paper()
    paper.add("r", prompt, output=9, n=n, seed=seed)
    paper.run()
    assert sum(plan.tokens for plan in paper.plans) == prompt + n * 8  # the prompt is computed once
    for index in range(n):
        name = f"r/{index}" if index else "r"
        assert paper.tokens[name] == alone("r", prompt, 9, seed=(seed + index) % 2**64)["r"]
    assert len({tuple(tokens) for tokens in paper.tokens.values()}) == n


def test_cached_tokens_are_told_once_for_all_choices() -> None:
    paper = Paper()
    paper.add("before", [1, 2, 3, 4, 5, 6], output=2)
    paper.run()
    paper.add("r", [1, 2, 3, 4, 5, 6], output=2, n=3)
    paper.run()
    assert [paper.cached[name] for name in ("r", "r/1", "r/2")] == [5, 0, 0]


def test_copies_on_write_are_counted() -> None:
    """Of four choices that share half a page, three copy it; the last one writes in place, or copies too while a copy's source is
    kept for the step in flight."""
    paper = Paper()
    paper.add("r", prompt=6, output=4, n=4)
    paper.run()
    assert paper.stats.page_copies_total == 3 + paper.depth
    assert sum(len(plan.copies) for plan in paper.plans) == 3 + paper.depth


def test_a_tail_can_be_shared_while_another_goes_on_in_it() -> None:
    """The one that enters is not given tokens at once: the one that writes copies then, as nothing shared is written."""
    paper = Paper(page_size=8, seqs=4, budget=4)
    paper.add("before", [1, 2, 3, 4], output=1)
    paper.run()
    paper.add("writer", [1, 2, 3, 4, 5], output=9)
    paper.step()
    for name in ("long", "also long"):
        paper.add(name, prompt=20, output=1)
    paper.step()
    paper.add("reader", [1, 2, 3, 4, *[6] * 30], output=2)
    paper.step()
    assert paper.running == ["writer", "long", "also long", "reader"]
    assert counts(paper.plans[-1])[0] == 1
    assert counts(paper.plans[-1]) == [1, 2, 1]  # none for the reader yet
    paper.run()
    assert paper.cached["reader"] == 4


def test_the_audit_sees_a_table_that_was_tampered_with() -> None:
    paper = Paper()
    paper.add("r", prompt=6, output=4)
    paper.step()
    paper.scheduler._life.requests["r"].sequences[0].pages.pop()
    with pytest.raises(PoolError, match="counted otherwise"):
        paper.scheduler.audit()


def test_the_audit_sees_a_shared_page_that_would_be_written() -> None:
    paper = Paper()
    paper.add("r", prompt=6, output=4)
    paper.step()
    assert paper.scheduler.plan() is not None
    sequence = paper.scheduler._life.requests["r"].sequences[0]
    paper.scheduler.pool.share(sequence.pages)
    stranger = sequence.fork(1)
    stranger.pages = list(sequence.pages)
    paper.scheduler._life.batch.enter(stranger)
    with pytest.raises(PoolError, match="would be written while others read it"):
        paper.scheduler.audit()
