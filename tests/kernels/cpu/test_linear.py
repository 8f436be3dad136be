"""Products with packed weights, their epilogues and the norm, in every tier."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from octavo_kernels import reference
from octavo_kernels.cpu.kernels import CpuKernels

# columns, terms, rows: tails of panels, of pairs of panels and of items of work; terms that no tile of 32 divides, and more than
# are unpacked at once
SHAPES = [(16, 2, 1), (64, 64, 3), (100, 48, 5), (40, 96, 25), (33, 34, 70), (192, 576, 4), (48, 700, 9)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


SPAN, MOST_WEIGHT, MOST_FACTOR = 64, 2047, 16383  # of tier 0's integers


def integers(x: Tensor, most: int, by_factor: bool) -> Tensor:
    """Each 64 terms of a row rounded to −most … most times their greatest, in fp32 as tier 0 does; `by_factor`: as it does rows."""
    spans = functional.pad(x.float(), (0, -x.shape[1] % SPAN)).view(len(x), -1, SPAN)
    size = spans.abs().amax(-1, keepdim=True)
    scaled = spans * (most / size) if by_factor else spans / size * most
    kept: Tensor = torch.where(size > 0, scaled.round(), 0.0).double() * (size / most)
    return kept.flatten(1)[:, : x.shape[1]]


def operand(kernels: CpuKernels, x: Tensor) -> Tensor:
    """What the tier multiplies of rows: tiers of bf16 instructions round to bf16."""
    return integers(x, MOST_FACTOR, True) if kernels.tier == "avx2" else x.bfloat16().double()


def packed(kernels: CpuKernels, weight: Tensor) -> Tensor:
    """What the tier keeps of a weight."""
    return integers(weight, MOST_WEIGHT, False) if kernels.tier == "avx2" else weight.double()


@pytest.mark.parametrize(("columns", "terms", "rows"), SHAPES)
@pytest.mark.parametrize("addend", ["none", "bias", "delta"])
def test_a_product_is_the_sum_of_its_terms_and_the_addend(
    kernels: CpuKernels, columns: int, terms: int, rows: int, addend: str
) -> None:
    weight, x = draw(columns, terms).bfloat16(), draw(rows, terms, seed=1)
    add = {"none": None, "bias": draw(columns, seed=2), "delta": draw(rows, columns, seed=2)}[addend]
    expected = operand(kernels, x) @ packed(kernels, weight).T + (0 if add is None else add.double())
    got = kernels.linear(kernels.pack(weight), x, add)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=3e-5 * terms**0.5)


@pytest.mark.parametrize(("half", "terms", "rows"), [(16, 2, 1), (48, 64, 3), (80, 96, 30)])
def test_the_gated_product_is_silu_of_the_upper_half_times_the_lower(
    kernels: CpuKernels, half: int, terms: int, rows: int
) -> None:
    weight, x = draw(2 * half, terms).bfloat16(), draw(rows, terms, seed=1)
    expected = reference.silu_mul(operand(kernels, x) @ packed(kernels, weight).T)
    got = kernels.gated(kernels.pack(weight), x)
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("columns", "terms", "rows"), SHAPES)
def test_the_argmax_is_that_of_the_product(kernels: CpuKernels, columns: int, terms: int, rows: int) -> None:
    packed, x = kernels.pack(draw(columns, terms).bfloat16()), draw(rows, terms, seed=1)
    assert kernels.argmax(packed, x).tolist() == kernels.linear(packed, x).argmax(1).tolist()


def test_of_equal_columns_the_first_is_the_greatest(kernels: CpuKernels) -> None:
    weight = draw(1, 64).repeat(400, 1).bfloat16()
    weight[:7] *= -1
    x = weight[7:8].float().repeat(30, 1)
    assert kernels.argmax(kernels.pack(weight), x).tolist() == [7] * 30


@pytest.mark.parametrize("terms", [34, 64, 576, 700])
def test_a_row_has_the_same_bits_alone_and_in_company(kernels: CpuKernels, terms: int) -> None:
    packed, x = kernels.pack(draw(96, terms).bfloat16()), draw(61, terms, seed=1)
    together = kernels.linear(packed, x), kernels.gated(packed, x)
    for row in (0, 3, 17, 31, 60):
        alone = x[row : row + 1].clone()
        assert torch.equal(kernels.linear(packed, alone)[0], together[0][row])
        assert torch.equal(kernels.gated(packed, alone)[0], together[1][row])


@pytest.mark.parametrize(("columns", "terms"), [(16, 2), (100, 48), (33, 134)])
def test_rows_of_a_packed_weight_come_out_as_they_are_kept(kernels: CpuKernels, columns: int, terms: int) -> None:
    weight = draw(columns, terms).bfloat16()
    ids = torch.tensor([columns - 1, 0, columns // 2, 0])
    got = kernels.rows(kernels.pack(weight), ids)
    torch.testing.assert_close(got.double(), packed(kernels, weight)[ids], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_not_lost(kernels: CpuKernels, bad: float) -> None:
    x = draw(3, 128)
    x[1, 70] = bad
    got = kernels.linear(kernels.pack(draw(32, 128, seed=1).bfloat16()), x)
    assert got.isfinite().all(1).tolist() == [True, False, True]
    assert not got[1].isfinite().any()


def test_a_weight_that_is_not_finite_shows(kernels: CpuKernels) -> None:
    weight = draw(32, 128, seed=1).bfloat16()
    weight[5, 70] = torch.nan
    assert kernels.linear(kernels.pack(weight), draw(2, 128)).isnan().any(0).nonzero().flatten().tolist() == [5]


def test_calls_from_two_threads_do_not_disturb_each_other(kernels: CpuKernels) -> None:
    weights = [kernels.pack(draw(320, 256, seed=seed).bfloat16()) for seed in (1, 2)]
    rows = [draw(50, 256, seed=seed) for seed in (3, 4)]
    expected = [kernels.linear(weight, x) for weight, x in zip(weights, rows, strict=True)]

    def repeat(index: int) -> bool:
        return all(torch.equal(kernels.linear(weights[index], rows[index]), expected[index]) for _ in range(200))

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(repeat, (0, 1))) == [True, True]


def test_what_is_next_to_nothing_is_nothing(kernels: CpuKernels) -> None:
    got = kernels.linear(kernels.pack(torch.ones(16, 64).bfloat16()), torch.full((2, 64), 1e-37))
    assert bool((got.abs() < 1e-34).all())


def test_integers_never_overflow(kernels: CpuKernels) -> None:
    """All terms at their greatest, of one sign: the largest sum that a span can have."""
    weight, x = torch.full((16, 640), 3.0).bfloat16(), torch.full((5, 640), 7.0)
    got = kernels.linear(kernels.pack(weight), x)
    torch.testing.assert_close(got, torch.full((5, 16), 640 * 21.0), rtol=1e-5, atol=0.0)


@pytest.mark.parametrize(("rows", "width"), [(1, 8), (3, 576), (37, 50)])
@pytest.mark.parametrize("has_delta", [False, True], ids=["first", "later"])
def test_the_norm_adds_first_and_keeps_the_sum(kernels: CpuKernels, rows: int, width: int, has_delta: bool) -> None:
    residual, weight = draw(rows, width), draw(width, seed=2)
    delta = draw(rows, width, seed=1) if has_delta else None
    total = residual + delta if delta is not None else residual.clone()
    got = kernels.add_rms_norm(residual, delta, weight, 1e-5)
    assert torch.equal(residual, total)
    torch.testing.assert_close(got, reference.rms_norm(total, weight, 1e-5), rtol=1e-5, atol=1e-5)
