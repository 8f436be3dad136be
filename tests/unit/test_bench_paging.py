"""The arithmetic of `bench paging`: what the figures are made of."""

import pytest

from bench.seeds.arithmetic import (
    bearable_prompt,
    busy_share,
    computed_products,
    contiguous_sessions,
    held_tails,
    longest_gap_s,
    mean,
    padded_outputs,
    shared_pages,
    wasted_share,
    worst_sharing,
)
from bench.seeds.figure import Figure, Target, ratio_text, table
from bench.seeds.trace import Answer, Step, Trace
from bench.workload import LONG_TOKENS, SHORT_TOKENS, chats, long_tail, poisson, prompt, with_prefix
from octavo_runtime.messages import Stats


def stats(waiting: int = 0, used: int = 0, filled: int = 0, busy_s: float = 0.0, running: int = 1) -> Stats:
    return Stats(
        running=running,
        waiting=waiting,
        blocks_total=100,
        blocks_used=used,
        blocks_cached=0,
        slots_filled=filled,
        batch_size=1,
        step_tokens=1,
        step_prompt_tokens=0,
        step_generated_tokens=1,
        busy_s_total=busy_s,
        preemptions_total=0,
    )


def figure(target: Target | None, value: float) -> Figure:
    return Figure("name", "seed", target, value, f"{value} ×", "note")


@pytest.mark.parametrize(
    ("outputs", "batch", "padded"),
    [
        pytest.param([3, 9, 4, 5], 2, [9, 9, 5, 5], id="each batch as long as its longest"),
        pytest.param([3, 9, 4], 2, [9, 9, 4], id="the last batch may be small"),
        pytest.param([3, 9], 1, [3, 9], id="batches of one waste nothing"),
        pytest.param([], 4, [], id="nothing to do"),
    ],
)
def test_a_static_batch_lasts_as_long_as_its_longest_answer(outputs: list[int], batch: int, padded: list[int]) -> None:
    assert padded_outputs(outputs, batch) == padded


@pytest.mark.parametrize(
    ("memory", "sessions"),
    [
        pytest.param(15 * 4096, 15, id="an even multiple"),
        pytest.param(16 * 4096 - 1, 15, id="a part of a session is none"),
        pytest.param(4095, 0, id="less than one"),
    ],
)
def test_contiguous_sessions_take_their_whole_context(memory: int, sessions: int) -> None:
    assert contiguous_sessions(memory, 4096) == sessions


@pytest.mark.parametrize(
    ("prefix", "tails", "pages"),
    [
        pytest.param(1024, [16, 17], 64 + 1 + 2, id="a prefix of whole pages is held once"),
        pytest.param(1030, [10, 11], 64 + 1 + 2, id="its rest goes with every tail"),
        pytest.param(1024, [], 64, id="the prefix alone"),
    ],
)
def test_pages_of_a_shared_prefix(prefix: int, tails: list[int], pages: int) -> None:
    assert shared_pages(prefix, tails, 16) == pages


@pytest.mark.parametrize(
    ("chunk", "products"),
    [
        pytest.param(8, 64, id="one pass"),
        pytest.param(4, 4 * 4 + 4 * 8, id="two chunks"),
        pytest.param(3, 3 * 3 + 3 * 6 + 2 * 8, id="a short last chunk"),
        pytest.param(1, 36, id="a token at a time"),
    ],
)
def test_products_that_a_prompt_of_8_costs(chunk: int, products: int) -> None:
    assert computed_products(8, chunk) == products


@pytest.mark.parametrize(
    ("available", "tokens"),
    [
        pytest.param(8 * 32768**2, 32768, id="fits"),
        pytest.param(8 * 32768**2 - 1, 16384, id="halved once"),
        pytest.param(0, 1024, id="never below a short prompt"),
    ],
)
def test_a_prompt_that_one_pass_cannot_bear_is_halved(available: int, tokens: int) -> None:
    assert bearable_prompt(available, 32768) == tokens


def test_waste_is_the_mean_share_of_empty_slots() -> None:
    steps = [stats(used=2, filled=32), stats(used=2, filled=16), stats(used=0)]
    assert wasted_share(steps, 16) == pytest.approx(0.25)  # the step without pages says nothing


def test_busy_share_counts_only_what_follows_a_step_with_work_left() -> None:
    steps = [
        Step(1.0, stats(waiting=2, busy_s=1.0)),
        Step(2.0, stats(waiting=0, busy_s=1.9)),  # 0.9 of 1.0 s
        Step(9.0, stats(waiting=1, busy_s=2.0)),  # nothing waited: not counted
        Step(10.0, stats(waiting=0, busy_s=2.7)),  # 0.7 of 1.0 s
    ]
    assert busy_share(steps) == pytest.approx(0.8)
    with pytest.raises(ValueError, match="no work ever waited"):
        busy_share(steps[1:3])


def test_the_worst_step_of_a_shared_prefix_is_one_in_which_all_that_is_live_decodes() -> None:
    answers = {"0": Answer(0.0, [1.0, 2.0, 3.0], 3.0), "1": Answer(0.0, [2.0, 3.0, 4.0, 5.0], 5.0)}
    prefix_pages = 1024 // 16
    steps = [
        Step(1.0, stats(running=2, used=200)),  # one of the two still reads its prompt
        Step(2.0, stats(running=2, used=prefix_pages + 4)),
        Step(3.0, stats(running=1, used=prefix_pages + 3)),  # one page more than 21 tokens need
        Step(4.0, stats(running=1, waiting=1, used=200)),  # somebody waits
        Step(5.0, stats(running=0)),
    ]
    trace = Trace(steps, answers)
    assert held_tails(trace, [16, 20], 2.0) == [17, 20]  # the newest token of each is not computed yet
    assert held_tails(trace, [16, 20], 3.0) == [21]
    assert worst_sharing(trace, 1024, [16, 20], 16) == (prefix_pages + 3, prefix_pages + 2)
    assert worst_sharing(Trace(steps[:2], answers), 1024, [16, 8], 16) == (prefix_pages + 4, prefix_pages + 3)


def test_the_longest_gap_is_looked_for_around_the_time_in_question() -> None:
    token_s = [0.0, 5.0, 5.1, 5.4, 8.0]
    assert longest_gap_s(token_s, 5.05, 5.3) == pytest.approx(0.3)  # the gap that the end falls into counts
    assert longest_gap_s(token_s, 4.9, 5.05) == pytest.approx(5.0)  # so does the one that the begin falls into
    with pytest.raises(ValueError, match="no two tokens"):
        longest_gap_s(token_s, 9.0, 9.5)


def test_a_mean_of_nothing_names_the_cause() -> None:
    assert mean([1.0, 2.0]) == 1.5
    with pytest.raises(ValueError, match="the load was too small"):
        mean([])


@pytest.mark.parametrize(
    ("comparison", "below", "equal", "above"),
    [
        pytest.param("≤", "yes", "yes", "no", id="at most"),
        pytest.param("<", "yes", "no", "no", id="below"),
        pytest.param("≥", "no", "yes", "yes", id="at least"),
        pytest.param(">", "no", "no", "yes", id="above"),
    ],
)
def test_targets_are_met_or_not(comparison: str, below: str, equal: str, above: str) -> None:
    target = Target(comparison, 2.0)
    assert [figure(target, value).met for value in (1.9, 2.0, 2.1)] == [below, equal, above]


def test_a_table_has_a_row_for_each_figure_with_columns_in_line() -> None:
    lines = table([figure(Target("≤", 1.05, " ×"), 2.5), figure(None, 1.0)]).splitlines()
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]] == [
        ["name", "seed", "≤ 1.05 ×", "2.5 ×", "no", "note"],
        ["name", "seed", "–", "1.0 ×", "–", "note"],
    ]
    assert len({len(line) for line in lines}) == 1


def test_ratios_are_told_with_their_spread() -> None:
    assert ratio_text([3.0, 1.0, 2.0]) == "2.0 × (1.0–3.0)"


def test_chats_have_the_lengths_that_they_are_made_for() -> None:
    work = chats(4000, 256, 2048)
    assert mean([len(prompt_ids) for prompt_ids, _ in work]) == pytest.approx(161, rel=0.1)
    assert mean([output for _, output in work]) == pytest.approx(338, rel=0.1)  # less by the few that are cut
    assert max(len(prompt_ids) + output for prompt_ids, output in work) <= 2048


def test_the_long_tail_is_a_small_share_of_long_answers() -> None:
    outputs = [output for _, output in long_tail(2000, 256)]
    long = [output for output in outputs if output > SHORT_TOKENS[1]]
    assert len(long) / len(outputs) == pytest.approx(0.15, abs=0.03)
    assert all(LONG_TOKENS[0] <= output <= LONG_TOKENS[1] for output in long)


def test_prompts_with_one_prefix_differ_only_after_it() -> None:
    prompts = [prompt_ids for prompt_ids, _ in with_prefix(8, 100, 4, 256)]
    assert len({tuple(prompt_ids[:100]) for prompt_ids in prompts}) == 1
    assert len({tuple(prompt_ids[100:]) for prompt_ids in prompts}) == 8


def test_workloads_are_the_same_every_time_and_others_by_seed() -> None:
    assert prompt(50, 256, seed=1) == prompt(50, 256, seed=1) != prompt(50, 256, seed=2)
    arrivals = poisson(2000, 10.0)
    assert arrivals == poisson(2000, 10.0) == sorted(arrivals)
    assert arrivals[-1] == pytest.approx(200, rel=0.1)
