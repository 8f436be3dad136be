"""RMS norm with its residual, against the torch reference in fp32; the tolerance is a few roundings of the type."""

import pytest
import torch
from torch import Tensor

from octavo_kernels import reference
from octavo_kernels.gpu.rms_norm import MAX_WIDTH, rms_norm
from tests.kernels.gpu.paged import check_close

EPS = 1e-5
DTYPES = [pytest.param(torch.float32, 2e-6, id="fp32"), pytest.param(torch.float16, 2**-9, id="fp16")]


def draw(*shape: int, device: torch.device, dtype: torch.dtype, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (5, 33), (3, 576), (2, 1500)])
@pytest.mark.parametrize("residual", [True, False], ids=["residual", "plain"])
def test_norm_of_rows(
    rows: int, width: int, residual: bool, dtype: torch.dtype, tolerance: float, device: torch.device
) -> None:
    x, delta = (draw(rows, width, device=device, dtype=dtype, seed=seed) for seed in (0, 1))
    weight = draw(width, device=device, dtype=dtype, seed=2)
    summed = x + delta if residual else x.clone()
    out = torch.full_like(x, torch.nan)
    rms_norm(x, weight, EPS, out, delta if residual else None)
    assert torch.equal(x, summed)
    check_close(out, reference.rms_norm(summed.float(), weight.float(), EPS), tolerance)


def test_heads_are_normed_in_place_and_their_neighbours_left(device: torch.device) -> None:
    qkv = draw(5, 9, 80, device=device, dtype=torch.float32)
    weight = draw(80, device=device, dtype=torch.float32, seed=1)
    before = qkv.clone()
    heads = qkv[:, 2:7]
    rms_norm(heads, weight, EPS, heads)
    check_close(heads, reference.rms_norm(before[:, 2:7], weight, EPS), 2e-6)
    assert torch.equal(qkv[:, :2], before[:, :2])
    assert torch.equal(qkv[:, 7:], before[:, 7:])


def test_squares_are_summed_in_fp32(device: torch.device) -> None:
    x = torch.full((1, 33), 3e4, dtype=torch.float16, device=device)
    out = torch.full_like(x, torch.nan)
    rms_norm(x, torch.ones(33, dtype=torch.float16, device=device), EPS, out)
    assert torch.equal(out, torch.ones_like(x))


def test_a_row_that_no_program_holds_is_refused(device: torch.device) -> None:
    x = torch.zeros(1, MAX_WIDTH + 1, device=device)
    with pytest.raises(ValueError, match="16385 values; at most 16384"):
        rms_norm(x, x[0], EPS, x)
