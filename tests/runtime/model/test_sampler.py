"""Drawing: which ids may be drawn against a brute-force definition, how often they are, and what a draw does not depend on."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from octavo_kernels.cpu.kernels import CpuKernels
from octavo_kernels.cpu.library import best_library
from octavo_runtime.messages import Sampling
from octavo_runtime.model import sampler
from octavo_runtime.model.cpu_compute import CpuDrawing
from octavo_runtime.model.sampler import Draw, Row, candidates, sample
from tests.kernels.cpu.available import cpu_kernels_run

Logits = npt.NDArray[np.float32]
GREEDY = Sampling(temperature=0.0)


def drawn(logits: torch.Tensor, rows: list[Row]) -> list[int]:
    """The token that each row draws."""
    return [token for draw in sample(logits, rows) for token in draw.tokens]


def allowed(logits: Logits, sampling: Sampling, slack: float) -> list[int]:
    """The definition: rank by logit, then id; min_p, then top_k, then top_p over what is left of the probability.

    `slack` widens top_p and min_p by that part of themselves: where a sum stands at the bound, rounding decides.
    """
    scaled = logits.astype(np.float64) / sampling.temperature
    weights = np.exp(scaled - scaled.max())
    left = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    left = [token for token in left if weights[token] >= sampling.min_p * (1 - slack)]
    if sampling.top_k:
        left = left[: sampling.top_k]
    if sampling.top_p < 1:
        wanted = sampling.top_p * (1 + slack) * float(sum(weights[token] for token in left))
        for count in range(1, len(left)):
            if sum(weights[token] for token in left[:count]) >= wanted:
                left = left[:count]
                break
    return sorted(left)


def check(logits: Logits, sampling: Sampling) -> None:
    ids = candidates(logits, sampling).tolist()
    finite = [token for token in ids if logits[token] > -np.inf]
    bounds = [allowed(logits, sampling, slack) for slack in (-1e-12, 1e-12)]
    low, high = ([token for token in bound if logits[token] > -np.inf] for bound in bounds)
    assert finite
    assert ids == sorted(set(ids))
    assert set(low) <= set(finite) <= set(high)


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.1, 0.7, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 2, 5, 40]),
    top_p=st.sampled_from([1.0, 0.01, 0.5, 0.9, 0.999999]),
    min_p=st.sampled_from([0.0, 0.001, 0.1, 1.0]),
)
# Few different values, so that ties are common; bans put in −∞, never everywhere.
values = st.sampled_from([-np.inf, -8.0, -1.0, 0.0, 0.5, 3.0, 3.25])
short_logits = st.builds(
    lambda values, top: np.array([*values, top], dtype=np.float32),
    st.lists(values, max_size=60),
    st.sampled_from([0.0, 3.25]),
)


@settings(max_examples=300, deadline=None)
@given(short_logits, samplings)
@example(np.zeros(7, dtype=np.float32), Sampling(top_k=3))
@example(np.zeros(7, dtype=np.float32), Sampling(top_p=0.5))
def test_candidates_of_a_small_vocabulary(logits: Logits, sampling: Sampling) -> None:
    check(logits, sampling)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.01, 1.0, 6.0]),
    st.sampled_from([0, 1, 50, 1023, 1024, 1025, 1500, 5000]),
    st.sampled_from([1.0, 0.1, 0.5, 0.95]),
    st.sampled_from([0.0, 0.01, 0.9]),
)
@example(0, 0.01, 1500, 0.5, 0.0)  # a set larger than the first look, of which top_p takes half
@example(0, 0.01, 0, 0.5, 0.9)  # … and one that min_p leaves
@example(0, 0.0, 0, 0.95, 0.0)  # all equal: top_p reaches beyond the first look
def test_candidates_of_a_vocabulary_larger_than_the_first_look(
    seed: int, spread: float, top_k: int, top_p: float, min_p: float
) -> None:
    logits = np.random.default_rng(seed).normal(0, spread, 3 * sampler._FIRST_LOOK).astype(np.float32)
    ids = candidates(logits, Sampling(top_k=top_k, top_p=top_p, min_p=min_p))
    low, high = (ranked_count(logits, top_k, top_p * (1 + slack), min_p * (1 - slack)) for slack in (-1e-9, 1e-9))
    assert low <= len(ids) <= high
    ranked = np.lexsort((np.arange(len(logits)), -logits))
    np.testing.assert_array_equal(ids, np.sort(ranked[: len(ids)]))


def ranked_count(logits: Logits, top_k: int, top_p: float, min_p: float) -> int:
    """How many of the ranked ids `allowed` leaves, in array form."""
    weights = np.sort(np.exp(logits.astype(np.float64) - logits.max()))[::-1]
    weights = weights[weights >= min_p][: top_k or None]
    if top_p >= 1:
        return len(weights)
    reached = np.flatnonzero(np.cumsum(weights) >= top_p * weights.sum())
    return int(reached[0]) + 1 if len(reached) else len(weights)


@pytest.mark.parametrize(
    ("sampling", "ids"),
    [
        pytest.param(Sampling(), [0, 1, 2, 3], id="all that are not banned"),
        pytest.param(Sampling(top_k=1), [1], id="top_k 1 of a tie takes the lowest id"),
        pytest.param(Sampling(top_k=3), [0, 1, 3], id="top_k 3"),
        pytest.param(Sampling(top_p=0.39), [1], id="top_p reached by one"),
        pytest.param(Sampling(top_p=0.41), [1, 3], id="top_p needs a second"),
        pytest.param(Sampling(top_p=0.000001), [1], id="top_p keeps at least one"),
        pytest.param(Sampling(min_p=0.5), [1, 3], id="min_p below the tie"),
        pytest.param(Sampling(min_p=1.0), [1, 3], id="min_p 1 keeps the likeliest and its ties"),
        pytest.param(Sampling(top_k=3, top_p=0.46), [1, 3], id="top_p of what top_k left"),
        pytest.param(Sampling(min_p=0.3, top_p=0.5), [1], id="top_p of what min_p left"),
        pytest.param(Sampling(temperature=1e3, top_p=0.5), [1, 3], id="temperature comes first"),
    ],
)
def test_candidates_in_plain_numbers(sampling: Sampling, ids: list[int]) -> None:
    logits = np.array([*np.log([0.1, 0.4, 0.1, 0.4]), -np.inf], dtype=np.float32)
    assert candidates(logits, sampling).tolist() == ids


@pytest.mark.parametrize("ids", [[0, 1], [2, 5, 7], [1999]], ids=str)
def test_greedy_takes_the_lowest_of_equal_ids(ids: list[int]) -> None:
    logits = torch.zeros(1, 2000)
    logits[0, ids] = 1.0
    assert drawn(logits, [Row(GREEDY, 0, 0)]) == [ids[0]]


@pytest.mark.parametrize(
    "sampling", [GREEDY, Sampling(), Sampling(top_k=2), Sampling(top_p=0.9), Sampling(min_p=0.01)], ids=repr
)
def test_banned_ids_are_never_drawn(sampling: Sampling) -> None:
    logits = torch.tensor([[9.0, 8.0, 1.0, 7.0]])
    rows = [Row(sampling, seed, 3, banned=(0, 1)) for seed in range(50)]
    assert {2, 3} >= set(drawn(logits.repeat(50, 1), rows))
    assert drawn(logits.clone(), [Row(GREEDY, 0, 3)]) == [0]


@pytest.mark.parametrize(
    ("sampling", "probabilities"),
    [
        pytest.param(Sampling(), [0.1, 0.2, 0.3, 0.4], id="softmax"),
        pytest.param(Sampling(temperature=0.5), [1 / 30, 4 / 30, 9 / 30, 16 / 30], id="temperature 0.5 squares"),
        pytest.param(Sampling(top_k=2), [0, 0, 3 / 7, 4 / 7], id="top_k"),
        pytest.param(Sampling(top_p=0.75), [0, 2 / 9, 3 / 9, 4 / 9], id="top_p"),
    ],
)
@pytest.mark.parametrize("over", ["seeds", "positions"])
def test_ids_are_drawn_as_often_as_they_are_likely(sampling: Sampling, probabilities: list[float], over: str) -> None:
    draws = 2000
    rows = [Row(sampling, 2**40 + i, 5) if over == "seeds" else Row(sampling, 77, i) for i in range(draws)]
    tokens = drawn(torch.tensor([0.1, 0.2, 0.3, 0.4]).log().repeat(draws, 1), rows)
    counts = np.bincount(tokens, minlength=4)
    expected = draws * np.array(probabilities)
    assert not counts[expected == 0].any()
    possible = expected > 0
    chi_square = float((((counts - expected) ** 2)[possible] / expected[possible]).sum())
    assert chi_square < 21.1  # three degrees of freedom or fewer exceed it once in 10,000; the seeds are fixed


def test_a_draw_does_not_depend_on_the_other_rows() -> None:
    logits = torch.randn(5, 3000, generator=torch.Generator().manual_seed(1))
    rows = [
        Row(Sampling(), 1, 9),
        Row(Sampling(temperature=0.7, top_p=0.9), 2, 9),
        Row(GREEDY, 3, 4),
        Row(Sampling(top_k=5), 2**63, 1),
        Row(Sampling(min_p=0.2), 4, 9, banned=(7, 8)),
    ]
    together = drawn(logits.clone(), rows)
    alone = [drawn(logits[i : i + 1].clone(), [row])[0] for i, row in enumerate(rows)]
    backwards = drawn(logits.flip(0), rows[::-1])[::-1]
    assert together == alone == backwards


@pytest.mark.parametrize(
    ("seed", "offset"),
    [
        pytest.param(8, 0, id="next seed"),
        pytest.param(7 + 2**32, 0, id="high bits of the seed"),
        pytest.param(7, 1, id="next position"),
    ],
)
def test_a_draw_depends_on_seed_and_position(seed: int, offset: int) -> None:
    equal = torch.zeros(20, 1000)  # the noise alone decides
    first = drawn(equal, [Row(Sampling(), 7, 2 * i) for i in range(20)])
    other = drawn(equal, [Row(Sampling(), seed, 2 * i + offset) for i in range(20)])
    assert sum(a == b for a, b in zip(first, other, strict=True)) <= 2


def test_limits_do_not_change_the_noise_of_what_they_leave() -> None:
    """A top_k that holds the unlimited draw draws the same."""
    logits = torch.randn(1, 500, generator=torch.Generator().manual_seed(2))
    for seed in range(30):
        (free,) = drawn(logits.clone(), [Row(Sampling(), seed, 0)])
        rank = int((logits[0] > logits[0, free]).sum()) + 1
        assert drawn(logits.clone(), [Row(Sampling(top_k=rank), seed, 0)]) == [free]


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(temperature=0.7, top_p=0.9), Sampling(top_k=3), GREEDY],
    ids=["free", "top_p", "top_k", "greedy"],
)
def test_a_choice_draws_as_a_row_with_the_next_seed_would(sampling: Sampling) -> None:
    """Seeds wrap at 64 bits."""
    logits = torch.randn(1, 3000, generator=torch.Generator().manual_seed(3))
    seed = 2**64 - 3
    (draw,) = sample(logits.clone(), [Row(sampling, seed, 9, banned=(1,), choices=6)])
    one_by_one = [drawn(logits.clone(), [Row(sampling, (seed + i) % 2**64, 9, banned=(1,))])[0] for i in range(6)]
    assert draw == Draw(one_by_one)
    assert (len(set(one_by_one)) > 1) == (not sampling.greedy)


def test_choices_do_not_shift_the_rows_beside_them() -> None:
    logits = torch.randn(3, 100, generator=torch.Generator().manual_seed(4))
    rows = [Row(Sampling(), 1, 2), Row(Sampling(), 5, 2, choices=3), Row(Sampling(), 9, 2)]
    assert [len(draw.tokens) for draw in sample(logits.clone(), rows)] == [1, 3, 1]
    alone = [sample(logits[i : i + 1].clone(), [row])[0] for i, row in enumerate(rows)]
    assert sample(logits.clone(), rows) == alone


def test_the_likeliest_are_told_with_their_log_probabilities() -> None:
    logits = 4 * torch.randn(1, 3000, generator=torch.Generator().manual_seed(5))
    (draw,) = sample(logits.clone(), [Row(GREEDY, 0, 0, top=7)])
    expected = torch.log_softmax(logits[0].double(), dim=0)
    values, ids = expected.topk(7)
    assert draw.tokens == ids.tolist()
    assert draw.logprobs == pytest.approx(values.tolist(), rel=1e-12)


def test_log_probabilities_are_of_the_whole_vocabulary() -> None:
    """They add up to one, whatever the temperature and the limits of the row; banned ids have none of it."""
    logits = 30 * torch.randn(1, 400, generator=torch.Generator().manual_seed(6)) + 1000
    row = Row(Sampling(temperature=0.1, top_k=2), 0, 0, banned=(3, 5), top=400)
    (draw,) = sample(logits.clone(), [row])
    assert sorted(draw.tokens) == list(range(400))
    assert float(np.exp(draw.logprobs).sum()) == pytest.approx(1.0, abs=1e-12)
    assert set(draw.tokens[-2:]) == {3, 5}
    assert draw.logprobs[-2:] == [-np.inf] * 2
    assert draw.logprobs == sorted(draw.logprobs, reverse=True)


@pytest.mark.parametrize("top", [1, 2, 3, 5])
def test_of_equally_likely_ones_the_lowest_ids_are_told(top: int) -> None:
    logits = torch.zeros(1, 2000)
    logits[0, [1900, 7, 400]] = 1.0
    (draw,) = sample(logits, [Row(GREEDY, 0, 0, top=top)])
    assert draw.tokens == [7, 400, 1900, 0, 1][:top]
    assert draw.logprobs[0] == draw.logprobs[min(top, 3) - 1]


@pytest.mark.skipif(not cpu_kernels_run(), reason="the CPU kernels need AVX2 and, to be compiled, g++")
def test_the_cpu_kernels_draw_what_the_definition_draws() -> None:
    logits = 3 * torch.randn((6, 5000), generator=torch.Generator().manual_seed(3))
    settings = [
        Sampling(temperature=1.0),
        Sampling(temperature=0.7, top_p=0.9),
        Sampling(temperature=1.3, top_k=40),
        Sampling(temperature=0.8, min_p=0.05),
        Sampling(temperature=5.0, top_p=0.999),  # more than the first look
        Sampling(temperature=0.0),
    ]
    rows = [Row(one, seed=2**63 + n, position=n, banned=(n,), choices=3) for n, one in enumerate(settings)]
    kernels = CpuDrawing(CpuKernels(best_library(threads=2)))
    assert sample(logits.clone(), rows, kernels) == sample(logits.clone(), rows)
