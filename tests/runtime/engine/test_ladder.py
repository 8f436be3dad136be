"""The memory ladder in the scheduler: what each level does to requests, on paper; and that nobody is lost."""

import logging

import pytest

from octavo_runtime.engine.admission import Queued, refusal
from octavo_runtime.engine.pressure import Means
from octavo_runtime.messages import AddRequest, ErrorInfo
from tests.runtime.engine.paper import GREEDY, Paper, alone, reasons

pytestmark = pytest.mark.usefixtures("each_depth")
STEP_S = 0.02


def short_of_memory(pages: int = 40, **options: object) -> Paper:
    return Paper(pages=pages, page_size=4, seqs=16, budget=64, context=64, ladder=Means(), **options)  # type: ignore[arg-type]  # a table


def step(paper: Paper) -> None:
    paper.step()
    paper.now_s += STEP_S


def levels(paper: Paper, limit: int = 3000) -> list[int]:
    """The level after each step, to the end of all work."""
    seen: list[int] = []
    while not paper.idle and len(seen) < limit:
        step(paper)
        seen.append(paper.scheduler.ladder.level)
    return seen


def crowd(paper: Paper, pools: int) -> list[str]:
    """So many pools full of work, all at once: their names."""
    names = [f"r{index}" for index in range(pools * 40 // 8)]
    for name in names:
        paper.add(name, prompt=16, output=16)  # eight pages each
    return names


def refused(paper: Paper, prompt: int = 4) -> ErrorInfo | None:
    request = AddRequest("new", [1] * prompt, GREEDY, 0, max_tokens=4)
    return refusal(request, paper.limits, paper.scheduler.queued())


def test_a_burst_of_ten_pools_climbs_to_the_top_and_back_and_loses_nobody() -> None:
    paper = short_of_memory()
    names = crowd(paper, 10)
    seen = levels(paper)
    assert max(seen) == 7
    assert set(reasons(paper)) == set(names)
    assert {len(paper.tokens[name]) for name in names} == {16}
    while paper.scheduler.ladder.level:
        paper.now_s += 0.5
        assert paper.scheduler.plan() is None
        assert paper.now_s < 60
    idle = [paper.idle]  # not yet: the new level is still to be told, once
    paper.step()
    assert (paper.stats.pressure_level, paper.stats.blocks_used) == (0, 0)
    assert [*idle, paper.idle] == [False, True]
    assert paper.stats.degradations_total == [1, 1, 1, 1, 1, 0, 1]  # nothing lossy is allowed


def test_without_the_ladder_the_level_stays_0() -> None:
    paper = Paper(pages=40, page_size=4, seqs=16, budget=64)
    crowd(paper, 10)
    assert set(levels(paper)) == {0}
    assert refused(paper) is None


def test_a_pool_that_suffices_leaves_it_at_0() -> None:
    paper = short_of_memory(pages=400)
    crowd(paper, 3)
    assert set(levels(paper)) == {0}


def test_who_waits_for_a_slot_is_no_pressure() -> None:
    paper = Paper(pages=100, page_size=4, seqs=4, budget=64, ladder=Means())
    crowd(paper, 10)  # three hundred pages, of which four sequences hold 32
    assert set(levels(paper)) == {0}


def test_what_many_have_in_common_counts_once() -> None:
    paper = short_of_memory(pages=30)
    prefix = [3] * 40
    paper.add("first", prefix, output=2)
    while "first" not in paper.finished:
        step(paper)
    for index in range(10):
        paper.add(f"r{index}", [*prefix, index], output=4)  # 12 pages each, 2 of its own
    assert max(levels(paper)) < 5
    assert len(paper.finished) == 11


def test_the_top_refuses_with_the_arithmetic_and_a_time_to_come_back() -> None:
    paper = short_of_memory()
    crowd(paper, 10)
    while paper.scheduler.ladder.level < 7:
        step(paper)
    error = refused(paper)
    assert error is not None
    assert (error.kind, error.retry_after_s) == ("pressured", paper.scheduler.queued().retry_after_s)
    assert error.message.startswith("memory pressure, level 7, refuses new requests: ")
    assert error.message.endswith(f"of 38 usable: try again in {error.retry_after_s} s")
    levels(paper)
    paper.now_s += 10
    paper.scheduler.queued()
    paper.now_s += 10
    assert refused(paper) is None


def at_level_5() -> Paper:
    paper = short_of_memory()
    crowd(paper, 4)
    while paper.scheduler.ladder.level < 5:
        step(paper)
    return paper


def test_level_5_caps_new_requests_and_tells_them() -> None:
    paper = at_level_5()  # 38 pages are usable: 9 of them for a request
    for name, output in (("asked", 40), ("open", None), ("short", 20)):
        paper.add(name, prompt=16, output=output)
    levels(paper)
    assert {name: len(paper.tokens[name]) for name in ("asked", "open", "short")} == {
        "asked": 20,
        "open": 20,
        "short": 20,
    }
    told = {name: paper.finished[name].degraded for name in ("asked", "open", "short", "r0")}
    assert [note.partition(":")[0] for note in told["asked"] + told["open"]][:1] == ["length_cap"]
    assert "at most 20 tokens instead of max_tokens 40, memory pressure level 5" in told["asked"][0]
    assert "instead of its context" in told["open"][0]
    assert not [note for note in told["short"] + told["r0"] if note.startswith("length_cap")]
    assert paper.stats.capped_total == 2


def test_level_5_refuses_a_prompt_over_the_cap_until_it_fits() -> None:
    paper = at_level_5()
    error = refused(paper, prompt=36)
    assert error is not None
    assert (error.kind, error.param) == ("pressured", "prompt")
    assert "the prompt has 36 tokens, and for the time being a request may have 36 with its output" in error.message
    assert refused(paper, prompt=35) is None
    levels(paper)
    paper.now_s += 10
    paper.scheduler.plan()
    paper.now_s += 10
    assert refused(paper, prompt=36) is None


def test_level_4_preempts_before_pages_lack_and_the_answers_are_the_same() -> None:
    """Lengths that were forecast too short fill the pool; then the ladder has pages free when decodes want them."""
    paper = short_of_memory(caching=False)
    paper.mislead()
    names = [f"r{index}" for index in range(10)]
    for name in names:
        paper.add(name, prompt=8, output=24)
    levels(paper)
    assert paper.stats.preempted_ahead_total > 0
    assert paper.stats.preemptions_total == paper.stats.preempted_ahead_total
    assert paper.tokens == {name: alone(name, 8, 24)[name] for name in names}
    paused = [name for name in names if paper.finished[name].degraded]
    assert paused
    assert names[0] not in paused  # the first by rank never yields


def test_level_3_lets_one_in_at_a_time_and_only_into_free_pages() -> None:
    paper = at_level_5()
    running = len(paper.running)
    while len(paper.finished) < 20:
        before, free = set(paper.running), paper.scheduler.pool.free
        step(paper)
        entered = set(paper.running) - before
        assert len(entered) <= 1, paper.now_s
        assert free >= 4 * len(entered) or not before, paper.now_s  # a prompt of four pages
    assert running > 0


def test_changes_of_the_level_are_logged_with_the_arithmetic(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="octavo.engine"):
        levels(at_level_5())
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("memory pressure")]
    assert lines[0].startswith("memory pressure from level 0 to level 5, caps the length of new requests: ")
    assert lines[-1].startswith("memory pressure from level ")


@pytest.mark.parametrize(
    ("queued", "prompt", "kind"),
    [
        pytest.param(Queued(0, 0, 3), 30, None, id="no pressure"),
        pytest.param(Queued(0, 0, 3, "level 7", refuses=True), 1, "pressured", id="refuses"),
        pytest.param(Queued(0, 0, 3, "level 7", refuses=True), 64, "never_fits", id="what never fits is told so"),
        pytest.param(Queued(0, 0, 3, "level 5", length_cap=30), 30, "pressured", id="prompt over the cap"),
        pytest.param(Queued(0, 0, 3, "level 5", length_cap=31), 30, None, id="prompt under the cap"),
    ],
)
def test_a_refusal_says_whether_to_come_back(queued: Queued, prompt: int, kind: str | None) -> None:
    error = refusal(AddRequest("r", [1] * prompt, GREEDY, 0), short_of_memory().limits, queued)
    assert (error.kind if error else None) == kind
    assert error is None or (error.retry_after_s == 3) == (kind == "pressured")
