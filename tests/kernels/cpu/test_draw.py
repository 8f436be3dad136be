"""Draws are those of the definition in numpy, bit for bit, in every tier."""

import numpy as np
import pytest
import torch

from octavo_kernels.cpu.kernels import CpuKernels
from octavo_kernels.philox import gumbel


def by_definition(logits: torch.Tensor, seed: int, position: int, temperature: float) -> int:
    values = logits.numpy() / np.float32(temperature)
    return int((values + gumbel(seed, position, np.arange(len(values)))).argmax())


@pytest.mark.parametrize("vocab", [5, 1000, 49152])
@pytest.mark.parametrize("temperature", [0.05, 1.0, 30.0])
def test_a_draw_is_that_of_the_definition(kernels: CpuKernels, vocab: int, temperature: float) -> None:
    logits = 3 * torch.randn((4, vocab), generator=torch.Generator().manual_seed(1))
    draws = [(n % 4, 2**64 - 1 - n * 977, n * n, temperature) for n in range(24)]
    expected = [by_definition(logits[row], seed, position, heat) for row, seed, position, heat in draws]
    assert kernels.draw(logits, draws) == expected


def test_noise_alone_decides_among_equal_logits(kernels: CpuKernels) -> None:
    logits = torch.zeros(1, 3000)
    draws = [(0, seed, 7, 1.0) for seed in range(50)]
    assert kernels.draw(logits, draws) == [by_definition(logits[0], seed, 7, 1.0) for seed in range(50)]


def test_a_banned_token_is_never_drawn(kernels: CpuKernels) -> None:
    logits = torch.full((1, 40), -torch.inf)
    logits[0, 11] = -50.0
    assert kernels.draw(logits, [(0, seed, 3, 2.0) for seed in range(20)]) == [11] * 20


@pytest.mark.parametrize(("vocab", "wanted"), [(5, 5), (1000, 1), (49152, 1024)])
def test_the_greatest_come_in_order_and_of_equal_ones_the_first(kernels: CpuKernels, vocab: int, wanted: int) -> None:
    logits = (2 * torch.randn((3, vocab), generator=torch.Generator().manual_seed(1))).round(decimals=2)  # has ties
    logits[1, ::3] = -torch.inf
    ids, masses = kernels.rank(logits, [(1, 0.5), (2, 3.0)], wanted)
    for got, mass, row, temperature in zip(ids, masses.tolist(), logits[1:], (0.5, 3.0), strict=True):
        assert got.tolist() == np.argsort(-row.numpy(), kind="stable")[:wanted].tolist()
        weights = torch.exp((row.double() - row.max()) / temperature)
        assert mass == pytest.approx(float(weights.sum()), rel=1e-5)
