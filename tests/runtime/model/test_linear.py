import torch
from torch import Tensor
from torch.nn import functional

from octavo_runtime.model.linear import Linear


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def linear(*shards: Tensor) -> Linear:
    made = Linear()
    for shard in shards:
        made.load(shard)
    made.finalize()
    return made


def test_rows_of_shards_come_in_the_order_of_loading() -> None:
    x, first, second = draw(3, 7, seed=0), draw(4, 7, seed=1), draw(2, 7, seed=2)
    torch.testing.assert_close(linear(first, second)(x), torch.cat((x @ first.T, x @ second.T), dim=1))


def test_the_addend_comes_before_the_epilogue() -> None:
    x, gate, up, addend = draw(3, 7, seed=0), draw(5, 7, seed=1), draw(5, 7, seed=2), draw(3, 10, seed=3)
    expected = functional.silu(x @ gate.T + addend[:, :5]) * (x @ up.T + addend[:, 5:])
    torch.testing.assert_close(linear(gate, up)(x, epilogue="silu_mul", addend=addend), expected)


def test_one_row_of_addend_is_a_bias_of_all() -> None:
    x, weight, bias = draw(3, 7, seed=0), draw(4, 7, seed=1), draw(4, seed=2)
    torch.testing.assert_close(linear(weight)(x, addend=bias), x @ weight.T + bias)
