"""Both forms of the product against the formula; the tiled one bit by bit, wherever in a batch a row stands."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from octavo_runtime.model.linear import TILE_ROWS, Linear, TiledLinear

KINDS = [pytest.param(Linear, id="plain"), pytest.param(TiledLinear, id="tiled")]


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def linear(*shards: Tensor, kind: type[Linear] = Linear) -> Linear:
    made = kind()
    for shard in shards:
        made.load(shard)
    made.finalize()
    return made


@pytest.mark.parametrize("rows", [1, 3, TILE_ROWS, TILE_ROWS + 1, 5 * TILE_ROWS])
@pytest.mark.parametrize("kind", KINDS)
def test_multiplies_any_number_of_rows(kind: type[Linear], rows: int) -> None:
    x, weight = draw(rows, 7, seed=0), draw(4, 7, seed=1)
    torch.testing.assert_close(linear(weight, kind=kind)(x), x @ weight.T)


def test_rows_of_shards_come_in_the_order_of_loading() -> None:
    x, first, second = draw(3, 7, seed=0), draw(4, 7, seed=1), draw(2, 7, seed=2)
    torch.testing.assert_close(linear(first, second)(x), torch.cat((x @ first.T, x @ second.T), dim=1))


@pytest.mark.parametrize("kind", KINDS)
def test_the_addend_comes_before_the_epilogue(kind: type[Linear]) -> None:
    x, gate, up, addend = draw(3, 7, seed=0), draw(5, 7, seed=1), draw(5, 7, seed=2), draw(3, 10, seed=3)
    expected = functional.silu(x @ gate.T + addend[:, :5]) * (x @ up.T + addend[:, 5:])
    torch.testing.assert_close(linear(gate, up, kind=kind)(x, epilogue="silu_mul", addend=addend), expected)


def test_one_row_of_addend_is_a_bias_of_all() -> None:
    x, weight, bias = draw(3, 7, seed=0), draw(4, 7, seed=1), draw(4, seed=2)
    torch.testing.assert_close(linear(weight)(x, addend=bias), x @ weight.T + bias)


def test_bfloat16_works_with_and_without_instructions_for_it() -> None:
    x, weight = draw(3, 7, seed=0).bfloat16(), draw(4, 7, seed=1).bfloat16()
    torch.testing.assert_close(linear(weight)(x), (x.double() @ weight.double().T).bfloat16())


@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, id="fp32"), pytest.param(torch.bfloat16, id="bf16")])
@pytest.mark.parametrize(("columns", "half"), [(64, 128), (107, 301)], ids=str)
def test_a_row_in_tiles_is_the_same_bits_wherever_it_stands(columns: int, half: int, dtype: torch.dtype) -> None:
    """401 rows of 301 activations: more than one thread takes, and no share of a thread ends with a row."""
    made = linear(draw(2 * half, columns, seed=1).to(dtype), kind=TiledLinear)
    row = draw(1, columns, seed=0).to(dtype)
    alone = made(row, epilogue="silu_mul")
    for rows in (2, TILE_ROWS, TILE_ROWS + 1, 401):
        assert torch.equal(made(row.expand(rows, columns), epilogue="silu_mul"), alone.expand(rows, half))
        for place in {0, rows // 2, rows - 1}:
            company = draw(rows, columns, seed=rows).to(dtype)
            company[place] = row
            assert torch.equal(made(company, epilogue="silu_mul")[place], alone[0])
