"""What runs in a step: one budget, decodes first, prompts in chunks; preemption that never livelocks.

The scheduler with a runner on paper (`paper.py`), which checks at every step that each sequence reads its own history.
"""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.engine.paper import Paper, counts

TOKEN = 7


def always(token: int) -> Callable[[list[int], int], int]:
    return lambda tokens, seed: token


def test_a_long_prompt_comes_in_chunks_beside_decodes() -> None:
    paper = Paper(budget=16)
    paper.add("short", prompt=3, output=20)
    assert counts(paper.step()) == [3]
    paper.add("long", prompt=40, output=2)
    assert [counts(paper.step()) for _ in range(4)] == [[1, 15], [1, 15], [1, 10], [1, 1]]


def test_prompts_share_the_budget_in_order_of_arrival() -> None:
    paper = Paper(budget=16)
    for name, prompt in (("a", 10), ("b", 10), ("c", 10)):
        paper.add(name, prompt, output=3)
    assert counts(paper.step()) == [10, 6]
    assert counts(paper.step()) == [1, 4, 10]


def test_runs_no_more_sequences_than_there_are_slots() -> None:
    paper = Paper(seqs=2)
    for name in "abc":
        paper.add(name, prompt=2, output=2)
    paper.step()
    assert (paper.stats.running, paper.stats.waiting) == (2, 1)
    paper.run()
    assert set(paper.finished) == {"a", "b", "c"}


def test_ends_on_eos_on_stop_ids_and_on_length() -> None:
    paper = Paper(context=12)
    paper.add("eos", 2, output=9, eos_ids=[TOKEN])
    paper.add("stop", 2, output=9, stop_ids=[TOKEN])
    paper.add("late", 2, output=9, eos_ids=[TOKEN], min_tokens=3)
    paper.add("length", 2, output=5)
    paper.add("context", 2)
    paper.run()
    assert paper.finished == {"eos": "stop", "stop": "stop", "late": "stop", "length": "length", "context": "length"}
    assert paper.tokens == {"eos": 1, "stop": 1, "late": 3, "length": 5, "context": 10}


def test_leaves_nothing_behind() -> None:
    paper = Paper()
    for index in range(20):
        paper.add(str(index), prompt=1 + index, output=1 + index % 5)
    paper.run()
    assert len(paper.finished) == 20
    assert (paper.stats.running, paper.stats.waiting, paper.stats.blocks_used, paper.stats.slots_filled) == (0, 0, 0, 0)


def test_preempts_the_sequence_that_loses_least_when_pages_run_out() -> None:
    paper = Paper(pages=6, page_size=4)
    paper.add("old", prompt=8, output=16)
    paper.add("young", prompt=4, output=8)
    paper.run()
    assert paper.finished == {"old": "length", "young": "length"}
    assert paper.tokens == {"old": 16, "young": 8}
    assert paper.stats.preemptions_total > 0


def test_a_preempted_sequence_keeps_what_it_generated() -> None:
    paper = Paper(pages=6, page_size=4)
    paper.add("old", prompt=8, output=16)
    paper.add("young", prompt=4, output=8)
    while paper.stats.preemptions_total == 0:
        paper.step()
    before = paper.tokens["young"]
    paper.run()
    again = next(entry for plan in paper.plans[1:] for entry in plan.new)
    assert len(again.tokens) == 4 + before


def test_the_last_sequence_ends_with_length_when_it_fills_the_pool() -> None:
    paper = Paper(pages=3, page_size=4, context=64)
    paper.add("open", prompt=6)
    paper.run()
    assert paper.finished == {"open": "length"}
    assert paper.tokens["open"] == 7  # 12 slots hold 6 + 6 tokens; the last one drawn needs none


def test_aborts_in_every_state_return_all_pages() -> None:
    paper = Paper(seqs=2, budget=8)
    for name in ("decoding", "prefilling", "waiting"):
        paper.add(name, prompt=3 if name == "decoding" else 20, output=9)
    paper.step()
    assert sorted(paper.scheduler.abort(["decoding", "prefilling", "waiting", "unknown"])) == [
        "decoding",
        "prefilling",
        "waiting",
    ]
    paper.step()
    assert paper.stats.blocks_used == 0
    assert not paper.scheduler.has_work
    paper.add("next", prompt=3, output=2)
    paper.run()
    assert paper.finished == {"next": "length"}


@settings(max_examples=60, deadline=None)
@given(
    pages=st.integers(4, 24),
    requests=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=24),
    seqs=st.integers(1, 8),
    budget=st.integers(8, 24),
    aborts=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 23)), max_size=6),
)
def test_every_request_finishes_or_was_aborted(
    pages: int, requests: list[tuple[int, int]], seqs: int, budget: int, aborts: list[tuple[int, int]]
) -> None:
    """Whatever the load (up to many times the pool), nothing is lost, stuck or leaked."""
    paper = Paper(pages=pages, seqs=seqs, budget=budget)
    fitting = {str(i): entry for i, entry in enumerate(requests) if sum(entry) <= pages * 4}
    for name, (prompt, output) in fitting.items():
        paper.add(name, prompt, output)
    gone: set[str] = set()
    for step in range(41):
        gone.update(name for at, index in aborts if at == step for name in paper.scheduler.abort([str(index)]))
        paper.step()
    paper.run()
    assert set(paper.finished) | gone == set(fitting)
    assert not set(paper.finished) & gone
    assert all(paper.tokens[name] == fitting[name][1] for name in paper.finished)
    assert paper.stats.blocks_used == 0
