"""A step is planned while another is in flight: what it may build on, what is dropped, and when pages and slots return.

The runner on paper checks throughout that nobody is given what a step in flight reads or writes; here is what this costs and saves.
"""

from collections.abc import Callable

import pytest

from octavo_runtime.engine.fence import Fence
from octavo_runtime.messages import BeamSearch
from tests.runtime.engine.paper import Paper, alone
from tests.runtime.engine.paper_runner import drawn_token

EOS = 9


def ends_at(length: int) -> Callable[[list[int], int], int]:
    """A model that ends every text at so many tokens, prompt included."""
    return lambda tokens, seed: EOS if len(tokens) >= length - 1 else drawn_token(tokens, seed) % EOS


def flown(paper: Paper) -> list[list[int]]:
    """Tokens of each sequence in the steps in flight."""
    return [[run.count for run in plan.run] for plan in paper.flying]


def test_a_decode_is_planned_before_the_step_that_draws_its_token_is_collected() -> None:
    paper = Paper(depth=1)
    paper.add("r", prompt=5, output=9)
    assert paper.submit()
    assert paper.submit()
    assert paper.tokens == {}
    assert [[(run.start, run.count) for run in plan.run] for plan in paper.flying] == [[(0, 5)], [(5, 1)]]
    paper.run()
    assert paper.tokens == alone("r", 5, 9)


def test_every_step_of_a_plain_decode_overlaps_the_next() -> None:
    paper = Paper(depth=1)
    for name in "abc":
        paper.add(name, prompt=3, output=20)
    for _ in range(19):
        paper.step()
        assert flown(paper) == [[1, 1, 1]]
    paper.run()
    assert len(paper.plans) == 20


def test_no_step_is_planned_after_an_end_by_length() -> None:
    paper = Paper(depth=1, context=12)
    paper.add("asked for", prompt=3, output=4)
    paper.add("full", prompt=3)
    paper.run()
    assert sum(plan.tokens for plan in paper.plans) == 3 + 3 + 3 + 8
    assert {name: len(tokens) for name, tokens in paper.tokens.items()} == {"asked for": 4, "full": 9}


def test_one_token_at_most_is_drawn_in_vain_after_an_ending_id_and_counts_nowhere() -> None:
    steps = {}
    for depth in (0, 1):
        paper = Paper(depth=depth, draw=ends_at(8))
        paper.add("r", prompt=3, output=20, eos_ids=[EOS])
        told = [0, 0, 0]
        while not paper.idle:
            paper.step()
            stats = paper.stats
            told = [told[0] + stats.step_tokens, told[1] + stats.step_generated_tokens, told[2] + stats.batch_size]
        assert (len(paper.tokens["r"]), paper.finished["r"].finish_reason) == (5, "stop")
        steps[depth] = told, sum(plan.tokens for plan in paper.plans)
    assert steps[1][0] == steps[0][0] == [7, 5, 5]
    assert (steps[0][1], steps[1][1]) == (7, 8)


def test_pages_and_slot_return_when_the_step_that_uses_them_is_collected() -> None:
    paper = Paper(depth=1, pages=8, seqs=1, caching=False)
    paper.add("r", prompt=5, output=9)
    paper.step()
    paper.scheduler.abort(["r"])
    paper.add("next", prompt=3, output=2)
    assert paper.scheduler.pool.used == 2
    assert (paper.running, paper.waiting) == ([], ["next"])
    paper.step()
    assert (paper.scheduler.pool.used, paper.stats.blocks_used, paper.stats.slots_filled) == (0, 0, 0)
    paper.run()
    assert paper.tokens["next"] == alone("next", 3, 2)["next"]


def test_what_is_held_for_a_step_in_flight_is_not_told_as_used() -> None:
    paper = Paper(depth=1, draw=ends_at(8))
    paper.add("short", prompt=3, output=20, eos_ids=[EOS])
    paper.step_until(lambda: "short" in paper.finished)
    assert paper.scheduler.pool.used == 2
    assert (paper.stats.blocks_used, paper.stats.slots_filled, paper.stats.running) == (0, 0, 0)
    assert paper.stats.blocks_cached == 0
    paper.step()
    assert (paper.scheduler.pool.used, paper.stats.blocks_cached) == (0, 2)


def test_the_end_of_a_text_is_found_to_the_token_while_a_step_still_writes_behind_it() -> None:
    paper = Paper(depth=1, draw=ends_at(7))
    paper.add("turn", [1, 2, 3], output=20, eos_ids=[EOS])
    paper.step_until(lambda: "turn" in paper.finished)
    assert paper.flying
    paper.add("next", [1, 2, 3, *paper.tokens["turn"], 5, 5], output=2)
    paper.run()
    assert paper.cached["next"] == 6
    assert (
        paper.stats.page_copies_total == 1
    )  # the tail is shared with the step in flight, so it is not written in place


@pytest.mark.parametrize(
    ("fields", "overlaps"),
    [
        pytest.param({}, 8, id="one sequence"),
        pytest.param({"n": 3}, 7, id="choices: but for the draw of the first tokens"),
        pytest.param({"n": 2, "beam": BeamSearch(3)}, 0, id="beams: never"),
    ],
)
def test_draws_that_decide_which_sequences_there_are_come_first(fields: dict[str, object], overlaps: int) -> None:
    paper, overlapped = Paper(depth=1), 0
    paper.add("r", prompt=5, output=9, **fields)
    while not paper.idle:
        paper.step()
        overlapped += bool(paper.flying)
    assert overlapped == overlaps
    assert paper.tokens == alone("r", 5, 9, 64, **fields)


def test_nobody_is_preempted_while_a_step_computes_for_it() -> None:
    paper = Paper(depth=1, pages=5, budget=64, context=30, caching=False)
    paper.mislead()
    paper.add("old", prompt=4, output=12)
    paper.add("young", prompt=4, output=8)
    told, in_flight = paper.scheduler._counts, -1
    while told.preemptions_total == 0:
        in_flight = len(paper.flying)
        if in_flight > 1 or not paper.submit():
            assert paper.flying
            paper.settle()
    assert in_flight == 0
    paper.run()
    assert paper.tokens == {**alone("old", 4, 12), **alone("young", 4, 8)}


def test_a_deadline_drops_what_is_in_flight() -> None:
    paper = Paper(depth=1)
    paper.add("r", prompt=3, output=9, deadline_s=5.0)
    for _ in range(3):
        paper.step()
    assert paper.flying
    paper.now_s = 5.0
    paper.step()
    assert (paper.finished["r"].stop_reason, paper.tokens["r"]) == ("deadline", alone("r", 3, 3)["r"])
    assert paper.idle
    assert paper.scheduler.pool.used == 0


def test_answers_and_totals_are_those_of_one_step_at_a_time() -> None:
    told = []
    for depth in (0, 1):
        paper, total = Paper(depth=depth, pages=40, draw=ends_at(30)), 0
        for index in range(30):
            n = 1 + index % 3
            paper.add(str(index), [index % 3] * (1 + index), 3 + index % 17, n=n, seed=index, eos_ids=[EOS])
        while not paper.idle:
            paper.step()
            total += paper.stats.step_generated_tokens
        told.append((paper.tokens, {name: end.finish_reason for name, end in paper.finished.items()}, total))
    assert told[0] == told[1]


def test_a_fence_gives_back_in_order_when_the_newest_step_is_collected() -> None:
    back: list[str] = []
    fence = Fence(back.append)
    fence.give("with nothing in flight")
    fence.planned(1)
    fence.give("while 1 was")
    fence.planned(2)
    fence.give("while 2 was too")
    assert list(fence) == ["while 1 was", "while 2 was too"]
    fence.collected(1)
    assert back == ["with nothing in flight", "while 1 was"]
    fence.give("later")
    fence.collected(2)
    assert back == ["with nothing in flight", "while 1 was", "while 2 was too", "later"]
