"""Who may run: in order of rank, as far as slots and the predicted peak of pages allow, with a little overtaking."""

from collections.abc import Callable

import pytest

from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.entrance import Entrance
from octavo_runtime.engine.lifecycle import Lifecycle
from octavo_runtime.messages import AddRequest
from tests.runtime.engine.paper import GREEDY, Paper

EOS = 9


def ends_at(length: int) -> Callable[[list[int], int], int]:
    """A model that ends every text at so many tokens, prompt included."""
    return lambda tokens, seed: EOS if len(tokens) == length - 1 else tokens[0] % EOS


def peaks(paper: Paper, limit: int = 2000) -> list[int]:
    """Pages in use after each step while others wait, to the end of all work."""
    used: list[int] = []
    for _ in range(limit):
        if paper.idle:
            return used
        paper.step()
        if paper.stats.waiting:
            used.append(paper.stats.blocks_used)
    raise AssertionError("no end")


def test_known_lengths_are_served_without_preemption() -> None:
    paper = Paper(pages=60, seqs=32, budget=64)
    for index in range(60):
        paper.add(str(index), prompt=1 + 7 * index % 23, output=1 + 11 * index % 29)
    used = peaks(paper)
    assert paper.stats.preemptions_total == 0
    assert len(paper.finished) == 60
    assert max(used) <= 58  # 97 %
    assert sum(used) / len(used) > 0.7 * 60  # it did not get there by running one after another


def test_learnt_lengths_are_served_without_preemption() -> None:
    """Nothing but experience says that texts end after 10 tokens: 8 at once need 4 pages each, and so many run at once."""
    paper = Paper(pages=33, seqs=32, budget=64, context=100, draw=ends_at(16))
    for index in range(100):
        paper.add(f"before {index}", [index % 8] * 6, eos_ids=[EOS])
    paper.run()
    for index in range(40):
        paper.add(str(index), [index % 8, 8, 8, 8, index // 8, 8], eos_ids=[EOS])
    used = peaks(paper)
    assert paper.stats.preemptions_total == 0
    assert max(used) >= 24


def test_unknown_lengths_are_expected_to_be_long() -> None:
    """Under 100 samples, whoever leaves the length open is taken to fill the context."""
    paper = Paper(pages=33, seqs=32, budget=64, context=64, draw=ends_at(16))
    for index in range(4):
        paper.add(str(index), [index] * 6, eos_ids=[EOS])
    paper.step()
    assert paper.running == ["0", "1"]


def test_priority_comes_first_then_arrival() -> None:
    paper = Paper(seqs=1)
    for name, priority in (("a", 0), ("b", 1), ("c", -1), ("d", 0)):
        paper.add(name, prompt=3, output=2, priority=priority)
    paper.run()
    assert list(paper.finished) == ["c", "a", "d", "b"]


def blocked() -> Paper:
    """100 pages; one that needs 60 runs, one that needs 60 at the same time is the head of the queue."""
    paper = Paper(pages=100, seqs=32, budget=160, context=300)
    paper.add("runner", prompt=160, output=80)
    paper.step()
    paper.add("head", prompt=200, output=40)
    return paper


@pytest.mark.parametrize(
    ("prompt", "passes"),
    [
        pytest.param(56, True, id="a fourth of its need"),
        pytest.param(57, False, id="a page more"),
    ],
)
def test_only_small_ones_pass_a_blocked_head(prompt: int, passes: bool) -> None:
    paper = blocked()
    paper.add("next", prompt, output=4)
    paper.step()
    assert ("next" in paper.running) == passes
    assert "head" in paper.waiting


def test_no_more_than_eight_pass_a_blocked_head() -> None:
    paper = blocked()
    small = [f"small {index}" for index in range(12)]
    for name in small:
        paper.add(name, prompt=6, output=10)
    for _ in range(20):
        paper.step()
    assert set(small) & set(paper.finished) == set(small[:8])
    assert paper.waiting == ["head", *small[8:]]
    while "head" in paper.waiting:
        assert "small 8" not in paper.running
        paper.step()
    paper.run()
    assert set(paper.finished) == {"runner", "head", *small}
    assert paper.stats.preemptions_total == 0


def test_a_request_for_the_whole_pool_runs_alone() -> None:
    paper = Paper(pages=10)
    paper.add("small", prompt=6, output=6)
    paper.step()
    paper.add("whole", prompt=20, output=20)
    paper.step()
    assert paper.running == ["small"]
    paper.run()
    assert len(paper.tokens["whole"]) == 20
    assert paper.stats.preemptions_total == 0


def test_shared_pages_are_counted_once() -> None:
    """Each needs 12 pages, 10 of them the same: of 30 pages five can run at once, which alone would need 60."""
    prefix = [index % 7 for index in range(40)]
    paper = Paper(pages=30, budget=64)
    paper.add("first", [*prefix, 8], output=1)
    paper.run()
    for index in range(5):
        paper.add(str(index), [*prefix, index], output=7)
    paper.step()
    assert len(paper.running) == 5
    paper.run()
    assert paper.stats.preemptions_total == 0


def test_shared_pages_outlive_the_one_that_computed_them() -> None:
    """Of 33 pages: the first has 12 and ends soon, the second goes on with 10 of these and 6 more; no room for 20 more then."""
    prefix = [index % 7 for index in range(40)]
    paper = Paper(pages=33, budget=200, context=100)
    paper.add("first", [*prefix, 8], output=4)
    paper.step()
    paper.add("second", [*prefix, 7], output=20)
    paper.add("third", prompt=60, output=20)
    paper.step()
    assert paper.running == ["first", "second"]
    paper.run()
    assert paper.stats.preemptions_total == 0


def test_equal_prefixes_wait_for_the_one_that_computes_them() -> None:
    prefix = [index % 7 for index in range(24)]
    paper = Paper(budget=8)
    for index in range(3):
        paper.add(f"equal {index}", [*prefix, index, 8], output=3)
    paper.add("other", prompt=9, output=3)
    paper.step()
    assert paper.running == ["equal 0", "other"]
    paper.run()
    assert paper.cached == {"equal 0": 0, "equal 1": 24, "equal 2": 24, "other": 0}


def test_nobody_waits_for_a_prefix_without_a_cache() -> None:
    paper = Paper(budget=8, caching=False)
    for index in range(3):
        paper.add(f"equal {index}", [1, 2, 3, 4, 5, 6, 7, 8, index], output=3)
    paper.step()
    assert len(paper.running) == 3


def test_a_wide_request_waits_until_there_are_slots_for_all_its_choices() -> None:
    paper = Paper(seqs=4)
    paper.add("a", prompt=2, output=3)
    paper.add("b", prompt=2, output=6)
    paper.step()
    paper.add("wide", prompt=2, output=4, n=3)
    paper.step()
    assert paper.running == ["a", "b"]
    paper.step_until(lambda: "a" in paper.finished)
    paper.step()
    assert paper.running == ["b", "wide", "wide/1", "wide/2"]


def test_slots_of_choices_that_are_not_drawn_yet_are_kept_free() -> None:
    paper = Paper(seqs=4, budget=8)
    paper.add("wide", prompt=24, output=4, n=3)
    for name in "abc":
        paper.add(name, prompt=2, output=9)
    for _ in range(3):
        paper.step()
        assert paper.running[-1:] == ["a"]
    paper.step()
    assert paper.running == ["wide", "wide/1", "wide/2", "a"]


@pytest.mark.parametrize(
    ("first", "entered"),
    [
        pytest.param(2, ["first"], id="choices that are still to be drawn count"),
        pytest.param(4, ["first"], id="alone, a wider one may run"),
        pytest.param(1, ["first", "second"], id="two single ones"),
    ],
)
def test_no_more_run_than_a_lowered_limit_allows(first: int, entered: list[str]) -> None:
    """Four slots, of which two may be taken."""
    pool = BlockPool(100, 4)
    life = Lifecycle(pool, 4, None)
    entrance = Entrance(pool, life, Limits(64, 100, 4, 10, max_num_seqs=4, max_queued=9))
    for name, n in (("first", first), ("second", 1), ("third", 1)):
        life.add(AddRequest(name, [1, 2, 3], GREEDY, 0, n=n, max_tokens=2), 0.0, 2)
    assert [sequence.request.asked.id for sequence in entrance.admit(2)] == entered
    assert entrance.admit(2) == []
