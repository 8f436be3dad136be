"""The torch references against the formulas in float64. Tolerances: a few roundings of the type, and of its sums."""

import numpy as np
import pytest
import torch
from torch import Tensor

from octavo_kernels import reference
from tests.kernels import formulas
from tests.kernels.formulas import Array

WIDE, BF16 = torch.float32, torch.bfloat16
TOLERANCE = {WIDE: 2e-6, BF16: 2**-7}  # relative; bf16 rounds to 8 bits, and these ops round two or three times
DTYPES = [pytest.param(WIDE, id="fp32"), pytest.param(BF16, id="bf16")]


def draw(*shape: int, dtype: torch.dtype = WIDE, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def exact(x: Tensor) -> Array:
    array: Array = x.double().numpy()
    return array


def check(out: Tensor, expected: Array, dtype: torch.dtype) -> None:
    assert out.dtype == dtype
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(exact(out), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 3, 33)], ids=str)
def test_rms_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight = draw(*shape, dtype=dtype), draw(shape[-1], dtype=dtype, seed=1)
    check(reference.rms_norm(x, weight, 1e-5), formulas.rms_norm(exact(x), exact(weight), 1e-5), dtype)


def test_rms_norm_sums_squares_that_its_type_cannot_hold() -> None:
    x = torch.full((1, 33), 3e4, dtype=torch.float16)
    assert torch.equal(reference.rms_norm(x, torch.ones(33, dtype=torch.float16), 1e-5), torch.ones_like(x))


def test_rms_norm_of_zeros_is_zero() -> None:
    assert torch.equal(reference.rms_norm(torch.zeros(3, 7), torch.ones(7), 1e-6), torch.zeros(3, 7))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("tokens", "heads", "width"), [(1, 1, 2), (3, 7, 6), (33, 3, 10)])
def test_rope(tokens: int, heads: int, width: int, dtype: torch.dtype) -> None:
    x, angles = draw(tokens, heads, width, dtype=dtype), draw(tokens, width // 2, seed=1) * 3
    out = reference.rope(x, angles.cos(), angles.sin())
    # The tables are rounded to the type of x before they are used, as the models' authors do: so are the formula's.
    expected = formulas.rope(exact(x), exact(angles.cos().to(dtype)), exact(angles.sin().to(dtype)))
    assert out.dtype == dtype
    # A sum of two products that may cancel: the error is relative to the largest value, not to the sum.
    np.testing.assert_allclose(exact(out), expected, rtol=0, atol=2 * TOLERANCE[dtype] * float(x.abs().max()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 2), (3, 14), (2, 7, 66)], ids=str)
def test_silu_mul(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = draw(*shape, dtype=dtype) * 4
    check(reference.silu_mul(x), formulas.silu_mul(exact(x)), dtype)
    check(reference.silu_mul_by_exp(x), formulas.silu_mul(exact(x)), dtype)


@pytest.mark.parametrize("gate", [-1e4, -89.0, 89.0, 1e4], ids=str)
def test_silu_mul_where_the_exponential_leaves_its_type(gate: float) -> None:
    x = torch.tensor([[gate, 2.0]])
    assert torch.equal(reference.silu_mul_by_exp(x), torch.tensor([[2 * max(gate, 0.0)]]))


@pytest.mark.parametrize("width", [1, 15, 33, 301, 32769])
def test_silu_mul_by_exp_gives_an_element_the_same_bits_at_every_place(width: int) -> None:
    for value in draw(40).tolist():
        out = reference.silu_mul_by_exp(torch.full((3, 2 * width), 4 * value))
        assert torch.equal(out, reference.silu_mul_by_exp(torch.full((1, 2), 4 * value)).expand(3, width))


@pytest.mark.parametrize("width", [16, 107, 576])
def test_norms_and_rotation_give_a_row_the_same_bits_at_every_place(width: int) -> None:
    """401 rows are more than one thread takes."""
    row, weight = draw(1, 2, width), draw(width, seed=1)
    angles = torch.linspace(0, 3, width // 2).unsqueeze(0)

    def ops(x: Tensor) -> Tensor:
        cos, sin = angles.cos().expand(len(x), -1), angles.sin().expand(len(x), -1)
        return reference.rope(reference.rms_norm(x, weight, 1e-5)[..., : width // 2 * 2], cos, sin)

    alone = ops(row)
    for rows in (2, 7, 16, 33, 401):
        for place in {0, rows // 2, rows - 1}:
            company = draw(rows, 2, width, seed=rows)
            company[place] = row
            assert torch.equal(ops(company)[place], alone[0])
