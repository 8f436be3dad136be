"""The fixed-tile linear layer: right in fp32, and a row's bits the same in every company."""

import numpy as np
import pytest
import torch

from octavo_kernels.gpu.matmul import matmul


def linear_inputs(rows: int, columns: int, depth: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """x and the weight: the first columns of wider buffers, whose others are poisoned."""
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(count, depth + 3, generator=generator) for count in (rows, columns))
    x[:, depth:] = weight[:, depth:] = torch.nan
    return x.to(device)[:, :depth], weight.to(device)[:, :depth]


@pytest.mark.parametrize("addend", [None, "row", "matrix"], ids=["plain", "bias", "addend of each row"])
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [pytest.param(1, 1, 1, id="smallest"), pytest.param(70, 130, 100, id="over every tile's edge")],
)
def test_products_of_rows(rows: int, columns: int, depth: int, addend: str | None, device: torch.device) -> None:
    x, weight = linear_inputs(rows, columns, depth, device)
    added = {
        None: None,
        "row": torch.arange(float(columns)),
        "matrix": torch.arange(float(rows * columns)).view(rows, columns),
    }
    addition = added[addend]
    out = torch.full((rows, columns), torch.nan, device=device)
    matmul(x, weight, out, None if addition is None else addition.to(device))
    expected = x.cpu().double() @ weight.cpu().double().T
    # fp32 sums of `depth` products of unit variance; the addend's own rounding besides.
    if addition is not None:
        expected += addition
    np.testing.assert_allclose(out.cpu().numpy(), expected.numpy(), rtol=1e-6, atol=2e-5)


def test_a_rows_bits_do_not_depend_on_the_others(device: torch.device) -> None:
    x, weight = linear_inputs(67, 20, 130, device)
    whole, alone = torch.empty(67, 20, device=device), torch.empty(1, 20, device=device)
    matmul(x, weight, whole)
    for row in (0, 3, 66):
        matmul(x[row : row + 1], weight, alone)
        assert torch.equal(alone[0], whole[row])
