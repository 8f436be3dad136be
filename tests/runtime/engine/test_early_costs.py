"""Which way a step reads pages below the pool, by what both took."""

import pytest

from octavo_runtime.engine.early_costs import Corner, StepCost, Way, WayCosts, corners

FEW, MANY = Corner(1, 1), Corner(64, 64)
# The bus: a page costs the same for one token and for many. The host: a page costs what there are tokens.
BRING = StepCost(FEW, MANY, few_few_s=0.010, few_many_s=0.010 + 63e-4, many_few_s=0.012, many_many_s=0.012 + 63e-4)
ATTEND = StepCost(FEW, MANY, few_few_s=0.011, few_many_s=0.011 + 63e-5, many_few_s=0.013, many_many_s=0.013 + 63e-3)


@pytest.mark.parametrize(
    ("queries", "pages", "expected"),
    [
        pytest.param(1, 1, "bring", id="a token, a page: the host costs a wait for each layer"),
        pytest.param(1, 20, "attend", id="a token, more pages"),
        pytest.param(1, 10_000, "attend", id="beyond what was measured"),
        pytest.param(64, 64, "bring", id="many tokens"),
        pytest.param(64, 10_000, "bring", id="many tokens, many pages"),
        pytest.param(2048, 1, "bring", id="a chunk beyond what was measured"),
        pytest.param(4, 64, "attend", id="a few tokens"),
    ],
)
def test_the_cheaper_way_is_chosen(queries: int, pages: int, expected: Way) -> None:
    assert WayCosts(ATTEND, BRING).choice(queries, pages) == expected


@pytest.mark.parametrize(
    ("queries", "pages", "expected_s"),
    [
        pytest.param(1, 1, 1.0, id="measured"),
        pytest.param(1, 64, 64.0, id="measured over many pages"),
        pytest.param(64, 64, 256.0, id="measured for many tokens"),
        pytest.param(1, 127, 127.0, id="twice the pages"),
        pytest.param(127, 1, 7.0, id="twice the tokens"),
    ],
)
def test_costs_go_on_in_straight_lines(queries: int, pages: int, expected_s: float) -> None:
    assert StepCost(FEW, MANY, 1.0, 64.0, 4.0, 256.0).seconds(queries, pages) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    "cost",
    [
        pytest.param(StepCost(FEW, MANY, 5.0, 4.0, 3.0, 2.0), id="more seems to cost less"),
        pytest.param(StepCost(FEW, FEW, 5.0, 6.0, 7.0, 8.0), id="nothing but the smallest could be measured"),
    ],
)
def test_more_never_costs_less(cost: StepCost) -> None:
    assert cost.seconds(1, 1) == 5.0
    for smaller, larger in (((1, 1), (1, 900)), ((1, 1), (900, 1)), ((1, 900), (900, 900)), ((900, 1), (900, 900))):
        assert cost.seconds(*smaller) <= cost.seconds(*larger)


@pytest.mark.parametrize(
    ("most_queries", "most_pages", "max_model_len", "expected"),
    [
        pytest.param(2048, 5000, 100_000, Corner(64, 64), id="no larger than tells enough"),
        pytest.param(2048, 5000, 160, Corner(64, 4), id="half of a short context"),
        pytest.param(40, 3, 160, Corner(40, 3), id="what there is"),
        pytest.param(2048, 5000, 18, Corner(1, 1), id="a page and a token"),
        pytest.param(2048, 5000, 17, None, id="no room behind a page"),
    ],
)
def test_what_is_measured_fits_the_context(
    most_queries: int, most_pages: int, max_model_len: int, expected: Corner | None
) -> None:
    found = corners(most_queries, most_pages, page_size=16, max_model_len=max_model_len)
    assert found == (None if expected is None else (Corner(1, 1), expected))
