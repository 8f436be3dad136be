"""How prompts share a step's budget: long prompts delay nobody by more than a budget, and neither long nor short ones starve."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_runtime.engine.prefill import share_budget, share_whole
from tests.runtime.engine.paper import Paper, counts

wants = st.lists(st.integers(0, 40), max_size=8)


@pytest.mark.parametrize(
    ("budget", "wanted", "given_tokens"),
    [
        pytest.param(16, [], [], id="nobody"),
        pytest.param(16, [40], [16], id="one alone"),
        pytest.param(16, [10, 10, 10], [8, 8, 0], id="equal ones by rank"),
        pytest.param(16, [40, 9, 3], [8, 5, 3], id="the shortest before the others"),
        pytest.param(16, [3, 40, 40], [3, 13, 0], id="what the first cannot use"),
        pytest.param(16, [40, 2, 3], [11, 2, 3], id="what the others cannot use"),
        pytest.param(1, [40, 1], [1, 0], id="one token"),
        pytest.param(0, [40, 1], [0, 0], id="no token"),
    ],
)
def test_shares_by_hand(budget: int, wanted: list[int], given_tokens: list[int]) -> None:
    assert share_budget(budget, wanted) == given_tokens


@given(budget=st.integers(0, 60), wanted=wants)
def test_a_share_is_fair_and_wastes_nothing(budget: int, wanted: list[int]) -> None:
    shares = share_budget(budget, wanted)
    assert len(shares) == len(wanted)
    assert all(0 <= share <= want for share, want in zip(shares, wanted, strict=True))
    assert sum(shares) == min(budget, sum(wanted))
    if wanted:
        assert shares[0] >= min(wanted[0], budget / 2)
    for one, want in enumerate(wanted[1:], start=1):
        shorter = [other for other in range(1, len(wanted)) if wanted[other] < want]
        assert shares[one] == 0 or all(shares[other] == wanted[other] for other in shorter)


@given(budget=st.integers(0, 60), wanted=wants)
def test_whole_prompts_get_all_or_nothing(budget: int, wanted: list[int]) -> None:
    shares = share_whole(budget, wanted)
    assert sum(shares) <= budget
    left = budget
    for share, want in zip(shares, wanted, strict=True):
        assert share == (want if want <= left else 0)
        left -= share


def test_a_long_prompt_comes_in_chunks_beside_decodes() -> None:
    paper = Paper(budget=16)
    paper.add("short", prompt=3, output=20)
    assert counts(paper.step()) == [3]
    paper.add("long", prompt=40, output=2)
    assert [counts(paper.step()) for _ in range(4)] == [[1, 15], [1, 15], [1, 10], [1, 1]]


def test_long_prompts_delay_no_running_stream_by_more_than_a_budget() -> None:
    """Each running stream gets its token in every step, and no step is larger than the budget (the rig looks)."""
    paper = Paper(pages=200, budget=8, seqs=8)
    for name in "abc":
        paper.add(name, prompt=2, output=30)
    paper.step()
    for name in "LMN":
        paper.add(name, prompt=50, output=3)
    for token in range(2, 31):
        paper.step()
        assert [len(paper.tokens[name]) for name in "abc"] == [token] * 3
    assert "L" in paper.tokens  # the prompts did go on beside them


def test_a_short_prompt_does_not_wait_behind_long_ones() -> None:
    paper = Paper(pages=200, budget=8)
    for name in "LMN":
        paper.add(name, prompt=50, output=2)
    paper.step()
    paper.add("short", prompt=4, output=2)
    paper.step()
    assert len(paper.tokens["short"]) == 1


def test_a_long_prompt_is_not_starved_by_a_flood_of_short_ones() -> None:
    """It is the first by rank before long, and then gets at least half of each step's budget: 60 tokens take 15 steps."""
    paper = Paper(pages=200, budget=8, seqs=8)
    paper.add("long", prompt=60, output=1)
    for step in range(15):
        assert "long" not in paper.finished
        for name in "ab":
            paper.add(f"{name}{step}", prompt=8, output=1)
        paper.step()
    assert "long" in paper.finished
    assert any(name.startswith("a") for name in paper.finished)


@pytest.mark.parametrize(
    ("percent", "long"),
    [
        pytest.param(100, 15, id="all that decodes leave"),
        pytest.param(50, 8, id="half of the budget"),
        pytest.param(1, 1, id="at least a token"),
    ],
)
def test_the_part_of_prompts_is_capped_while_others_decode(percent: int, long: int) -> None:
    paper = Paper(budget=16, prefill_percent=percent)
    paper.add("short", prompt=3, output=3)
    paper.step()
    paper.add("long", prompt=60, output=1)
    assert [counts(paper.step()) for _ in range(2)] == [[1, long]] * 2
    assert counts(paper.step()) == [16]  # nobody decodes any more


def test_without_chunks_a_prompt_is_computed_in_one_step() -> None:
    paper = Paper(budget=32, chunked_prefill=False)
    for name, prompt in (("a", 20), ("b", 20), ("c", 5)):
        paper.add(name, prompt, output=2)
    assert counts(paper.step()) == [20, 5]
    assert counts(paper.step()) == [1, 1, 20]
    paper.run()
    assert set(paper.finished) == {"a", "b", "c"}


@settings(max_examples=15, deadline=None)
@given(
    prompts=st.lists(st.integers(1, 24), min_size=1, max_size=8),
    budget=st.sampled_from([24, 30]),
    pages=st.integers(7, 14),
    chunked=st.booleans(),
    percent=st.sampled_from([20, 100]),
)
def test_answers_do_not_depend_on_how_prompts_are_cut(
    prompts: list[int], budget: int, pages: int, chunked: bool, percent: int
) -> None:
    plain = Paper(pages=200, budget=64)
    cut = Paper(pages=pages, budget=budget, context=28, chunked_prefill=chunked, prefill_percent=percent)
    for paper in (plain, cut):
        for index, prompt in enumerate(prompts):
            paper.add(str(index), prompt, output=4)
        paper.run()
    assert cut.tokens == plain.tokens
