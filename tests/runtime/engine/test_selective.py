"""Which pages go: the least attended to, but for the sink and the newest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo_runtime.engine.selective import HALF_LIFE_TOKENS, KvBudget, least_tokens, places_to_evict, weighed


@pytest.mark.parametrize(
    ("weights", "recent", "count", "gone"),
    [
        pytest.param([9, 1, 3, 2, 9, 9], 2, 1, [1], id="the least"),
        pytest.param([9, 4, 3, 2, 9, 9], 2, 2, [2, 3], id="the two least, in order of place"),
        pytest.param([0, 5, 5, 5, 0, 0], 2, 1, [1], id="of equal ones the oldest, the sink and the newest never"),
        pytest.param([0, 0, 0, 0, 0, 0], 1, 3, [1, 2, 3], id="without weights a sliding window"),
        pytest.param([9, 4, 3, 2], 3, 2, [], id="nothing between"),
        pytest.param([9, 4, 3, 2, 1], 3, 2, [1], id="fewer between than were asked for"),
        pytest.param([9, 4, 3, 2, 1], 1, 0, [], id="none asked for"),
    ],
)
def test_evicts_the_least_attended_between_sink_and_window(
    weights: list[float], recent: int, count: int, gone: list[int]
) -> None:
    assert places_to_evict(weights, recent, count) == gone


@pytest.mark.parametrize(
    ("tokens", "pages", "step_tokens", "match_tokens"),
    [
        pytest.param(1, 4, 32, 96, id="too little becomes the least"),
        pytest.param(128, 4, 32, 96, id="the least"),
        pytest.param(287, 8, 64, 192, id="never more than was asked for"),
        pytest.param(4096, 128, 1024, 3072, id="large"),
    ],
)
def test_a_budget_is_whole_pages(tokens: int, pages: int, step_tokens: int, match_tokens: int) -> None:
    budget = KvBudget.of_tokens(tokens, 32)
    assert (budget.pages, budget.step_tokens, budget.match_tokens) == (pages, step_tokens, match_tokens)
    assert least_tokens(32) == 128


@given(pages=st.integers(4, 300), held=st.integers(0, 300), taken=st.integers(1, 300))
def test_there_is_always_enough_to_evict_for_what_a_step_computes(pages: int, held: int, taken: int) -> None:
    """From any table within its budget, for any number of tokens that a step may compute then."""
    budget = KvBudget(pages, 16)
    held, taken = min(held, pages), min(taken, budget.recent_pages)
    excess = held + taken - pages
    assert len(places_to_evict([1.0] * held, budget.recent_pages, excess)) == max(0, excess)


def test_attention_fades_by_half_in_a_half_life() -> None:
    before = {7: 8.0, 8: 4.0, 9: 1.0}
    after = weighed(before, (8, 7, 11), [0.0, 1.0, 2.5], HALF_LIFE_TOKENS)
    assert after == {8: 2.0, 7: 5.0, 11: 2.5}


def test_as_many_queries_one_by_one_fade_as_much_as_together() -> None:
    weights = {1: 1.0}
    for _ in range(64):
        weights = weighed(weights, (1,), [0.0], 1)
    assert weights == pytest.approx(weighed({1: 1.0}, (1,), [0.0], 64))
