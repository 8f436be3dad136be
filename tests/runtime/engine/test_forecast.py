"""How long outputs will be, and the peak of pages that follows, against a simulation token by token."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from octavo_runtime.engine.forecast import (
    DEFAULT_REMAINING,
    SAMPLES_KEPT,
    Demand,
    OutputLengths,
    peak_pages,
    usable_pages,
)


def lengths_of(*lengths: int) -> OutputLengths:
    lengths_seen = OutputLengths()
    for length in lengths:
        lengths_seen.record(length)
    return lengths_seen


@pytest.mark.parametrize(
    ("lengths", "generated", "limit", "remaining"),
    [
        pytest.param([10] * 99, 0, 4000, 512, id="too few samples"),
        pytest.param([10] * 99, 0, 200, 200, id="too few samples, limited"),
        pytest.param([10] * 100, 0, 4000, 10, id="enough samples"),
        pytest.param([10] * 100, 4, 4000, 6, id="what is there already"),
        pytest.param([10] * 100, 4, 2, 2, id="limited by max_tokens"),
        pytest.param(list(range(1, 101)), 0, 4000, 90, id="nine in ten are no longer"),
        pytest.param(list(range(100, 0, -1)), 50, 4000, 45, id="nine in ten of the longer ones"),
        pytest.param([10] * 95 + [300] * 5, 0, 4000, 10, id="few long ones do not matter at the beginning"),
        pytest.param([10] * 95 + [300] * 5, 10, 4000, 290, id="and alone do to who is longer than the others"),
        pytest.param([10] * 100, 10, 4000, 512, id="outlived all"),
        pytest.param([10] * 100, 900, 7, 7, id="outlived all, limited"),
    ],
)
def test_what_is_left_to_generate(lengths: list[int], generated: int, limit: int, remaining: int) -> None:
    assert lengths_of(*lengths).remaining(generated, limit) == remaining


def test_only_the_last_thousand_lengths_count() -> None:
    lengths = lengths_of(*[900] * 150, *[10] * (SAMPLES_KEPT - 1))
    assert lengths.remaining(10, 4000) == 890
    lengths.record(10)
    assert lengths.remaining(10, 4000) == DEFAULT_REMAINING


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=100, max_size=160),
    generated=st.integers(0, 60),
    limit=st.integers(0, 80),
)
def test_nine_in_ten_of_those_that_came_so_far_end_within_the_forecast(
    lengths: list[int], generated: int, limit: int
) -> None:
    remaining = lengths_of(*lengths).remaining(generated, 1000)
    longer = [length for length in lengths if length > generated]
    if not longer:
        assert remaining == DEFAULT_REMAINING
        return
    within = sum(length <= generated + remaining for length in longer)
    assert within >= 0.9 * len(longer)
    less = sum(length < generated + remaining for length in longer)
    assert less < 0.9 * len(longer) + 1e-9  # one token less would not do
    assert lengths_of(*lengths).remaining(generated, limit) == min(limit, remaining)


def simulated_peak(shared: int, demands: list[Demand], page_size: int) -> int:
    """Every sequence grows by a token a step; its own pages return after its last."""
    peak = shared
    for step in range(max((demand.remaining for demand in demands), default=-1) + 1):
        held = shared
        for demand in demands:
            if step <= demand.remaining:
                pages = math.ceil((demand.length + step) / page_size)
                held += demand.own_pages + max(0, pages - demand.table_pages)
        peak = max(peak, held)
    return peak


@st.composite
def demand_of(draw: st.DrawFn, page_size: int) -> Demand:
    length = draw(st.integers(1, 40))
    table = draw(st.integers(0, math.ceil(length / page_size) + 1))
    return Demand(length, table, draw(st.integers(0, table)), draw(st.integers(0, 40)))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), page_size=st.sampled_from([1, 3, 4, 16]), shared=st.integers(0, 9))
def test_the_peak_is_that_of_a_simulation(data: st.DataObject, page_size: int, shared: int) -> None:
    wanted = data.draw(st.lists(demand_of(page_size), max_size=7))
    assert peak_pages(shared, wanted, page_size) == simulated_peak(shared, wanted, page_size)


@pytest.mark.parametrize(
    ("shared", "wanted", "peak"),
    [
        pytest.param(3, [], 3, id="nobody"),
        pytest.param(0, [Demand(10, 0, 0, 6)], 4, id="one, to its end"),
        pytest.param(0, [Demand(10, 3, 3, 6)], 4, id="one that holds its pages"),
        pytest.param(2, [Demand(10, 3, 1, 6)], 4, id="shared pages count once"),
        pytest.param(2, [Demand(10, 3, 1, 6), Demand(10, 3, 1, 6)], 6, id="of two"),
        pytest.param(0, [Demand(4, 1, 1, 28), Demand(28, 7, 7, 0)], 8, id="a short one ends before a long one grows"),
        pytest.param(0, [Demand(4, 1, 1, 28), Demand(28, 7, 7, 28)], 22, id="two long ones grow together"),
        pytest.param(
            0, [Demand(8, 0, 0, 4), Demand(8, 0, 0, 12), Demand(8, 0, 0, 20)], 10, id="the peak is in between"
        ),
    ],
)
def test_peaks_by_hand(shared: int, wanted: list[Demand], peak: int) -> None:
    """Four tokens a page."""
    assert peak_pages(shared, wanted, 4) == peak
    assert peak_pages(shared, wanted[::-1], 4) == peak


@settings(max_examples=60, deadline=None)
@given(wanted=st.lists(demand_of(4), min_size=1, max_size=6), more=demand_of(4))
@example(wanted=[Demand(1, 0, 0, 0)], more=Demand(1, 1, 0, 0))
def test_one_more_never_lowers_the_peak(wanted: list[Demand], more: Demand) -> None:
    assert peak_pages(0, [*wanted, more], 4) >= peak_pages(0, wanted, 4)


@pytest.mark.parametrize(("total", "usable"), [(1, 1), (2, 1), (33, 32), (100, 97), (4096, 3973)])
def test_a_predicted_peak_may_fill_97_percent(total: int, usable: int) -> None:
    assert usable_pages(total) == usable
