"""The memory ladder's policy: which level numbers call for, how it climbs and comes down, what each level does."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_runtime.engine.pressure import (
    DWELL_S,
    LEFT_BELOW,
    STEPS,
    TOP,
    Means,
    Measures,
    Signs,
    Standing,
    length_cap,
    measures,
    next_standing,
    sentence,
)
from octavo_runtime.messages import LADDER

IDLE = Signs(usable=100, referenced=0, peak=0, waiting=0, free=100, soon=0)
ALL_MEANS = Means(tiers=True, lossy=True)


def signs(pressure: float) -> Signs:
    """All of it awaited, in a pool of a hundred pages."""
    return dataclasses.replace(IDLE, waiting=round(100 * pressure))


def level(seen: Signs, before: int = 0, means: Means = ALL_MEANS) -> int:
    return next_standing(Standing(before), seen, means, 0.0).level


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(IDLE, 0, id="nobody"),
        pytest.param(dataclasses.replace(IDLE, referenced=89), 0, id="nearly full"),
        pytest.param(dataclasses.replace(IDLE, referenced=50, peak=90), 1, id="forecast to be nearly full"),
        pytest.param(dataclasses.replace(IDLE, referenced=90, peak=20), 1, id="full, whatever was forecast"),
        pytest.param(dataclasses.replace(IDLE, referenced=50, peak=60, waiting=40), 2, id="full with who waits"),
        pytest.param(signs(1.5), 3, id="half a pool waits"),
        pytest.param(signs(2.0), 4, id="two pools"),
        pytest.param(signs(3.0), 5, id="three pools"),
        pytest.param(signs(4.0), 6, id="four pools"),
        pytest.param(signs(7.99), 6, id="nearly eight pools"),
        pytest.param(signs(8.0), 7, id="eight pools"),
        pytest.param(signs(1000.0), 7, id="whatever"),
        pytest.param(
            dataclasses.replace(IDLE, referenced=95, peak=110, free=5, soon=6), 4, id="pages lack within a second"
        ),
        pytest.param(
            dataclasses.replace(IDLE, referenced=95, peak=110, free=5, soon=5), 2, id="pages suffice for a second"
        ),
        pytest.param(
            dataclasses.replace(IDLE, referenced=95, peak=99, free=5, soon=50), 1, id="somebody ends before pages lack"
        ),
        pytest.param(
            dataclasses.replace(IDLE, referenced=95, peak=95, free=5, next=6), 4, id="pages lack in the next steps"
        ),
    ],
)
def test_the_level_that_pressure_calls_for(seen: Signs, expected: int) -> None:
    assert level(seen) == expected


def test_what_is_lossy_is_passed_over_where_it_is_not_allowed() -> None:
    assert [level(signs(pressure), means=Means(tiers=True)) for pressure in (4.0, 7.99, 8.0)] == [5, 5, 7]


def test_every_level_is_climbed_to_at_once_and_left_below_a_lower_threshold() -> None:
    for above, step in enumerate(STEPS, start=1):
        assert level(signs(step.pressure), before=above - 1) == above
        assert level(signs(step.pressure - 0.02), before=above - 1) == above - 1
        standing = Standing(above)
        for now_s in (0.0, DWELL_S, 10 * DWELL_S):
            standing = next_standing(standing, signs(LEFT_BELOW * step.pressure + 0.01), ALL_MEANS, now_s)
            assert standing == Standing(above)


def test_it_comes_down_after_a_dwell_to_what_was_called_for_meanwhile() -> None:
    standing = Standing(7)
    for now_s, pressure, expected in [
        (0.0, 0.1, 7),
        (0.5, 2.0, 7),  # level 4's threshold, and above what leaves it
        (1.9, 0.1, 7),
        (2.0, 0.1, 4),
        (2.1, 0.1, 4),
        (4.0, 0.1, 4),
        (4.2, 0.1, 0),
    ]:
        standing = next_standing(standing, signs(pressure), ALL_MEANS, now_s)
        assert standing.level == expected, now_s


def test_pressure_that_returns_within_the_dwell_begins_it_anew() -> None:
    standing = Standing(2)
    for now_s, pressure, expected in [(0.0, 0.1, 2), (1.9, 1.0, 2), (2.0, 0.1, 2), (3.9, 0.1, 2), (4.0, 0.1, 0)]:
        standing = next_standing(standing, signs(pressure), ALL_MEANS, now_s)
        assert standing.level == expected, now_s


@settings(max_examples=100, deadline=None)
@given(
    seen=st.lists(st.tuples(st.floats(0.0, 12.0), st.floats(0.001, 1.0)), max_size=60),
    lossy=st.booleans(),
)
def test_it_never_oscillates_from_step_to_step_and_returns_to_0(seen: list[tuple[float, float]], lossy: bool) -> None:
    """Whatever pressure does: it comes down once in a dwell at most, never lower than pressure holds it, and ends at 0."""
    standing, now_s, changed_s = Standing(), 0.0, 0.0
    means = Means(lossy=lossy)
    for pressure, later_s in [*seen, *[(0.0, 0.5)] * 12]:
        now_s += later_s
        before, standing = standing, next_standing(standing, signs(pressure), means, now_s)
        if standing.level < before.level:
            assert now_s - changed_s >= DWELL_S
        if standing.level != before.level:
            changed_s = now_s
        assert standing.level >= level(signs(pressure), means=means)
        assert standing.level != 6 or lossy
    assert standing.level == 0


@pytest.mark.parametrize(
    ("at", "added"),
    [
        pytest.param(0, {}, id="normal"),
        pytest.param(1, {"quantile": 0.99, "drafts": False, "prefetch": False}, id="stricter admission"),
        pytest.param(2, {"demotes": True, "swaps": True}, id="tiers"),
        pytest.param(3, {"prefill_divisor": 2, "few_enter": True}, id="slower intake"),
        pytest.param(4, {"preempts_ahead": True}, id="preempts ahead"),
        pytest.param(5, {"caps_length": True}, id="caps length"),
        pytest.param(6, {"lossy": True}, id="lossy"),
        pytest.param(7, {"refuses": True}, id="refuses"),
    ],
)
def test_each_level_adds_its_measures_to_those_below(at: int, added: dict[str, object]) -> None:
    below = dataclasses.asdict(measures(at - 1, ALL_MEANS)) if at else dataclasses.asdict(Measures())
    assert dataclasses.asdict(measures(at, ALL_MEANS)) == below | added


def test_without_means_nothing_is_demoted_swapped_or_lossy() -> None:
    done = measures(TOP, Means())
    assert not done.demotes
    assert not done.swaps
    assert not done.lossy
    assert done.refuses


def test_four_of_the_capped_length_fill_the_pool() -> None:
    assert (length_cap(100, 16), length_cap(3, 16)) == (400, 16)


@pytest.mark.parametrize(
    ("at", "means", "text"),
    [
        pytest.param(
            0, Means(), "level 0: 40 blocks used + 20 forecast + 90 awaited = 1.50 of 100 usable", id="normal"
        ),
        pytest.param(2, Means(), "level 2, there are no tiers to write pages to: 40 blocks", id="no tiers"),
        pytest.param(2, ALL_MEANS, "level 2, writes cold pages to tiers and swaps the least urgent: 40", id="tiers"),
        pytest.param(7, Means(), "level 7, refuses new requests: 40 blocks", id="refuses"),
    ],
)
def test_it_says_what_is_done_with_the_arithmetic(at: int, means: Means, text: str) -> None:
    seen = Signs(usable=100, referenced=40, peak=60, waiting=90, free=60, soon=0)
    assert sentence(at, seen, means).startswith(text)


def test_it_says_that_pages_run_out() -> None:
    seen = Signs(usable=100, referenced=99, peak=101, waiting=0, free=1, soon=3, next=2)
    assert sentence(4, seen, Means()).endswith("usable, 2 needed next and 3 within 1 s of 1 free")


def test_the_heartbeat_has_room_for_every_sentence() -> None:
    many = 10**9
    seen = Signs(usable=many, referenced=many, peak=2 * many, waiting=many, free=many - 1, soon=many, next=many)
    assert max(len(sentence(at, seen, ALL_MEANS).encode()) for at in range(TOP + 1)) <= 256


def test_every_level_has_a_name_in_metrics() -> None:
    assert len(LADDER) == TOP
