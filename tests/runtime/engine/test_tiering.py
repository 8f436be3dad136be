"""What the scheduler does with tiers: what is fetched instead of computed, and transfers that nobody waits for any more."""

from collections.abc import Callable

import pytest

from octavo_runtime.engine.request import State
from octavo_runtime.engine.tiering import LATE_S, TRY_AGAIN_EVERY
from tests.runtime.engine.paper import Paper, alone
from tests.runtime.engine.paper_store import PaperStore

pytestmark = pytest.mark.usefixtures("each_depth")

PROMPT = [index % 7 for index in range(21)]  # five full pages of 4, and what is always computed


def with_history(store: PaperStore, pages: int = 10) -> Paper:
    """PROMPT was served, and all its pages were reused since."""
    paper = Paper(pages, budget=64, store=store)
    for name, prompt in {"first": PROMPT, "other": [9] * (4 * pages - 3)}.items():
        paper.add(name, prompt, 2)
        paper.run()
    paper.plans.clear()
    return paper


def states(paper: Paper) -> list[State]:
    return [one.state for request in paper.scheduler._life.requests.values() for one in request.sequences]


def computed(paper: Paper) -> int:
    return sum(plan.tokens for plan in paper.plans)


def assert_nothing_is_left(paper: Paper) -> None:
    pool = paper.scheduler.pool
    paper.audit()
    assert (pool.used, pool.free) == (0, pool.total)


def test_pages_that_were_reused_come_back_from_a_tier() -> None:
    paper = with_history(PaperStore())
    paper.add("again", PROMPT, 2)
    paper.run()
    assert paper.cached["again"] == 20
    assert computed(paper) == 1 + 1  # the prompt's last token, and the first that was drawn
    assert paper.stats.tier_hits_tokens_total == 20
    assert paper.tokens["again"] == paper.tokens["first"]
    assert_nothing_is_left(paper)


def test_what_a_tier_brought_is_found_in_the_pool_by_the_next_one() -> None:
    store = PaperStore()
    paper = with_history(store)
    for name in ("again", "once more"):
        paper.add(name, PROMPT, 2)
        paper.run()
    assert paper.cached["once more"] == 20
    assert len(store.jobs) == 1


def test_others_run_while_pages_are_on_their_way() -> None:
    paper = with_history(PaperStore(polls=6))
    paper.add("again", PROMPT, 2)
    paper.add("beside", 3, 4)
    paper.step_until(lambda: "beside" in paper.finished)
    assert State.FETCHING in states(paper)
    paper.run()
    assert paper.tokens["again"] == paper.tokens["first"]


def test_who_shares_the_prompt_waits_for_the_same_transfer() -> None:
    store = PaperStore(polls=4)
    paper = with_history(store)
    paper.add("again", PROMPT, 2)
    paper.add("beside", PROMPT, 2)
    paper.run()
    assert len(store.jobs) == 1
    assert paper.cached["again"] == paper.cached["beside"] == 20


@pytest.mark.parametrize("place", [pytest.param(0, id="the first"), pytest.param(3, id="the fourth")])
def test_from_a_spoiled_block_on_all_is_computed(place: int) -> None:
    store = PaperStore(polls=2)
    paper = with_history(store)
    paper.add("again", PROMPT, 2)
    paper.step_until(lambda: bool(store.jobs))
    store.spoiled.add(store.jobs[0].keys[place])
    paper.run()
    assert paper.cached["again"] == 4 * place
    assert paper.tokens["again"] == paper.tokens["first"]
    assert_nothing_is_left(paper)


def abort(paper: Paper) -> None:
    assert paper.scheduler.abort(["again"]) == ["again"]


def pass_the_deadline(paper: Paper) -> None:
    paper.now_s = 60.0


@pytest.mark.parametrize(
    "end", [pytest.param(abort, id="an abort"), pytest.param(pass_the_deadline, id="its deadline")]
)
def test_pages_are_the_transfers_until_it_is_done_when_the_sequence_ends(end: Callable[[Paper], None]) -> None:
    store = PaperStore(polls=5)
    paper = with_history(store)
    paper.add("again", PROMPT, 2, deadline_s=50.0)
    paper.step_until(lambda: bool(store.jobs))
    assert State.FETCHING in states(paper)
    end(paper)
    paper.step()
    assert not paper.scheduler.has_work
    assert (paper.stats.running, paper.stats.blocks_used) == (0, 0)
    assert paper.scheduler.pool.used == 5  # the job's
    paper.add("next", 30, 4)  # finds other pages, or waits for these
    paper.run()
    paper.step_until(lambda: store.jobs[0].done)
    paper.step()
    assert_nothing_is_left(paper)
    assert paper.tokens["next"] == alone("next", 30, 4)["next"]


def test_a_transfer_that_is_late_is_not_waited_for() -> None:
    store = PaperStore(polls=40, seconds=0.01)
    paper = with_history(store, pages=12)
    paper.add("again", PROMPT, 2)
    paper.step_until(lambda: bool(store.jobs))
    paper.now_s += LATE_S + 0.1
    paper.run()
    assert not store.jobs[0].done
    assert store.jobs[0].unwanted
    assert paper.cached["again"] == 0
    assert paper.tokens["again"] == paper.tokens["first"]
    paper.step_until(lambda: store.jobs[0].done)
    paper.step()
    assert_nothing_is_left(paper)


@pytest.mark.parametrize(
    ("fetch_s", "fetched"),
    [
        pytest.param(1.9, True, id="faster"),
        pytest.param(2.1, False, id="slower"),
        pytest.param(None, True, id="unknown"),
    ],
)
def test_what_is_computed_faster_is_not_fetched(fetch_s: float | None, fetched: bool) -> None:
    store = PaperStore(seconds=fetch_s)
    paper = with_history(store)
    paper.scheduler._life.tiering.computed([40], 4.0)  # 20 tokens take 2 s
    paper.add("again", PROMPT, 2)
    paper.run()
    assert bool(store.jobs) is fetched


def test_a_slow_tier_is_tried_again_now_and_then() -> None:
    store = PaperStore(seconds=100.0)
    paper = with_history(store)
    paper.scheduler._life.tiering.computed([40], 4.0)
    for turn in range(TRY_AGAIN_EVERY):
        assert not store.jobs
        paper.add(f"again {turn}", PROMPT, 1)
        paper.run()
        paper.add(f"other {turn}", 37, 1)
        paper.run()
    assert len(store.jobs) == 1


def swapped_paper(store: PaperStore | None) -> Paper:
    """Two that are longer than was believed: pages run out, one yields."""
    paper = Paper(pages=7, budget=64, store=store)
    paper.mislead()
    paper.add("old", 5, 15)
    paper.add("young", 6, 12)
    return paper


def test_a_swapped_sequence_leaves_nothing_to_compute_again() -> None:
    store = PaperStore(polls=1)
    paper = swapped_paper(store)
    paper.step_until(lambda: State.SWAPPED in states(paper))
    assert paper.waiting == ["young"]
    paper.run()
    assert (paper.stats.preemptions_total, paper.stats.swapped_total) == (1, 1)
    assert computed(paper) == 5 + 14 + 6 + 11
    assert paper.tokens == {**alone("old", 5, 15), **alone("young", 6, 12)}
    assert_nothing_is_left(paper)


def test_an_aborted_swapped_sequence_leaves_nothing_behind() -> None:
    paper = swapped_paper(PaperStore())
    paper.step_until(lambda: State.SWAPPED in states(paper))
    assert paper.scheduler.abort(["young"]) == ["young"]
    paper.run()
    assert paper.waiting == []
    assert_nothing_is_left(paper)


def test_without_room_in_the_tiers_it_waits_to_be_computed_again() -> None:
    paper = swapped_paper(PaperStore(most=0))
    paper.step_until(lambda: "young" in paper.waiting)
    assert State.WAITING in states(paper)
    paper.run()
    assert (paper.stats.preemptions_total, paper.stats.swapped_total) == (1, 0)
    assert computed(paper) > 5 + 14 + 6 + 11


def evicting_paper(store: PaperStore) -> Paper:
    """One of two holds four pages of its history, and has to yield after it has evicted others."""
    paper = Paper(pages=9, context=128, budget=64, store=store)
    paper.mislead()
    paper.add("old", 5, 30)
    paper.add("young", 14, 30, kv_budget_tokens=16)
    return paper


@pytest.mark.parametrize("polls", [pytest.param(0, id="at once"), pytest.param(3, id="later")])
def test_a_swapped_sequence_goes_on_with_what_it_had_not_evicted(polls: int) -> None:
    paper = evicting_paper(PaperStore(polls))
    paper.run()
    assert paper.stats.swapped_total == paper.stats.preemptions_total > 0
    assert computed(paper) == 5 + 29 + 14 + 29
    assert [note for note in paper.finished["young"].degraded if "evicted to stay within" in note]
    assert not [note for note in paper.finished["young"].degraded if "computed again" in note]
    assert len(paper.tokens["young"]) == 30
    assert_nothing_is_left(paper)


def test_of_an_evicted_history_a_part_is_no_use() -> None:
    store = PaperStore(polls=2)
    paper = evicting_paper(store)
    paper.step_until(lambda: bool(store.jobs))
    store.spoiled.add(store.jobs[0].keys[-1])
    paper.run()
    assert computed(paper) > 5 + 29 + 14 + 29
    assert [note for note in paper.finished["young"].degraded if "computed again" in note]
    assert_nothing_is_left(paper)


def test_cold_pages_are_written_before_they_are_reused() -> None:
    store = PaperStore()
    paper = Paper(pages=20, budget=64, store=store)
    for name in ("a", "b"):
        paper.add(name, 17, 1)
        paper.run()
    assert not store.contents  # nothing was reused yet
    tiering = paper.scheduler._life.tiering
    assert [tiering.write_ahead(3) for _ in range(4)] == [3, 3, 2, 0]
    assert paper.scheduler.pool.cached == 10  # they can be found here all the same


def test_what_a_lasting_store_lacks_is_written_while_there_is_nothing_to_do() -> None:
    store = PaperStore()
    store.lasting_blocks = 1000
    paper = Paper(pages=20, budget=64, store=store)
    paper.add("a", 17, 1)
    paper.run()
    paper.step()
    assert len(store.contents) == 4
