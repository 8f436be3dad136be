"""Draws of the kernel against the CPU sampler's from the same logits, seeds and positions; and the noise's very bits."""

import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels import philox
from octavo_kernels.gpu import logit_keys, sampling
from octavo_runtime.messages import Sampling
from octavo_runtime.model import sampler

VOCABULARY = 5001  # two tiles
LARGE_SEED = 2**64 - 3


def on_device(rows: list[sampler.Row], device: torch.device) -> sampling.SamplingRows:
    each = [row.sampling for row in rows]
    signed = [row.seed - 2**64 if row.seed >= 2**63 else row.seed for row in rows]

    def wide(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=device)

    return sampling.SamplingRows(
        temperature=wide([one.temperature for one in each]),
        top_k=torch.tensor([one.top_k for one in each], dtype=torch.int32, device=device),
        top_p=wide([one.top_p for one in each]),
        min_p=wide([one.min_p for one in each]),
        seed=torch.tensor(signed, device=device),
        position=torch.tensor([row.position for row in rows], device=device),
    )


def drawn(logits: Tensor, rows: list[sampler.Row], device: torch.device) -> list[int]:
    out = torch.full((len(rows),), -1, device=device)
    sampling.sample(logits.to(device), on_device(rows, device), out)
    return [int(token) for token in out]


def check(logits: Tensor, rows: list[sampler.Row], device: torch.device) -> None:
    expected = [draw.tokens[0] for draw in sampler.sample(logits.float(), rows)]
    assert drawn(logits, rows, device) == expected


def random_logits(rows: int, spread: float = 3.0) -> Tensor:
    return torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(1)) * spread


@pytest.mark.parametrize(
    ("settings", "spread"),
    [
        pytest.param(Sampling(temperature=0.0, top_k=3, top_p=0.5), 3.0, id="greedy"),
        pytest.param(Sampling(), 3.0, id="all"),
        pytest.param(Sampling(temperature=1.7), 0.001, id="all, flat"),
        pytest.param(Sampling(temperature=0.7, top_k=20), 3.0, id="top_k"),
        pytest.param(Sampling(top_p=0.95), 1.0, id="top_p of a flat row"),
        pytest.param(Sampling(temperature=1.3, min_p=0.01), 3.0, id="min_p"),
        pytest.param(Sampling(temperature=0.6, top_k=50, top_p=0.8, min_p=0.001), 3.0, id="all three"),
    ],
)
def test_draws_what_the_cpu_draws(settings: Sampling, spread: float, device: torch.device) -> None:
    check(random_logits(1, spread), [sampler.Row(settings, LARGE_SEED, 100_000)], device)


@triton.jit
def _kept_kernel(
    logits_ptr: tl.tensor,
    out_ptr: tl.tensor,
    limits_ptr: tl.tensor,
    size: tl.int32,
    top_k: tl.int32,
    tile: tl.constexpr,
) -> None:
    temperature, top_p = tl.load(limits_ptr), tl.load(limits_ptr + 1)
    min_p, top = tl.load(limits_ptr + 2), tl.load(limits_ptr + 3)
    edge, last = sampling.kept_set(logits_ptr, size, top.to(tl.float32), temperature, top_k, top_p, min_p, tile)
    for start in range(0, size, tile):
        ids, x = logit_keys.load_logits(logits_ptr, start, size, tile)
        key = logit_keys.key_of(x)
        tl.store(out_ptr + ids, ((key > edge) | ((key == edge) & (ids <= last))).to(tl.int8), mask=ids < size)


# Few different values: ties at the edge of every set. −∞ may not be drawn.
TIED = torch.tensor([-torch.inf, 3.0, 3.25, -8.0, 3.25, 3.0, -0.0, 0.0, 3.0, 3.25, -torch.inf, 0.0])


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        pytest.param(Sampling(), {1, 2, 3, 4, 5, 6, 7, 8, 9, 11}, id="no limit"),
        pytest.param(Sampling(top_k=1), {2}, id="top_k 1 takes the lowest id"),
        pytest.param(Sampling(top_k=5), {1, 2, 4, 5, 9}, id="top_k ends among ties over two tiles"),
        pytest.param(Sampling(temperature=2.0, top_k=7), {1, 2, 4, 5, 6, 8, 9}, id="0 and −0 tie"),
        pytest.param(Sampling(top_p=0.3), {2, 4}, id="top_p ends among ties"),
        pytest.param(Sampling(top_p=1e-9), {2}, id="top_p keeps one"),
        pytest.param(Sampling(min_p=1.0), {2, 4, 9}, id="min_p 1 keeps the ties of the likeliest"),
        pytest.param(Sampling(top_k=5, min_p=1.0), {2, 4, 9}, id="min_p leaves fewer than top_k"),
        pytest.param(Sampling(top_k=4, top_p=0.8, min_p=0.1), {1, 2, 4, 9}, id="top_p of what top_k left"),
        pytest.param(Sampling(top_k=40, min_p=1e-6), {1, 2, 3, 4, 5, 6, 7, 8, 9, 11}, id="k of more than there are"),
    ],
)
def test_a_set_ends_where_the_cpus_does(settings: Sampling, allowed: set[int], device: torch.device) -> None:
    values = TIED.numpy()
    assert {int(token) for token in sampler.candidates(values, settings) if values[token] > -np.inf} == allowed
    assert {token for token in kept(TIED, settings, device) if values[token] > -np.inf} == allowed


def test_min_p_leaves_out_the_next_smaller_logit(device: torch.device) -> None:
    logits = torch.tensor([3.25, float(np.nextafter(np.float32(3.25), np.float32(0)))])
    assert kept(logits, Sampling(min_p=1.0), device) == {0}


def kept(logits: Tensor, settings: Sampling, device: torch.device) -> set[int]:
    out = torch.full((len(logits),), -1, dtype=torch.int8, device=device)
    limits = [settings.temperature, settings.top_p, settings.min_p, float(logits.max())]
    limits_there = torch.tensor(limits, dtype=torch.float64, device=device)
    _kept_kernel[(1,)](
        logits.to(device), out, limits_there, len(logits), settings.top_k, tile=8, enable_fp_fusion=False
    )
    return {token for token, keep in enumerate(out.tolist()) if keep}


def test_draws_the_token_that_ties_leave(device: torch.device) -> None:
    rows = [sampler.Row(Sampling(top_k=1), 5, 0), sampler.Row(Sampling(temperature=2.0, top_p=1e-9), 5, 1)]
    assert drawn(TIED.repeat(2, 1), rows, device) == [2, 2]


def test_a_token_is_out_of_the_draw_only_where_no_noise_could_win_it() -> None:
    least, most = (-math.log(-math.log((word + 0.5) / 2**24)) for word in (0, 2**24 - 1))
    assert most - least < sampling.NOISE_RANGE.value < most - least + 1


def test_greedy_takes_the_lowest_id_of_equals_over_all_tiles(device: torch.device) -> None:
    logits = torch.full((3, VOCABULARY), -1.0)
    logits[0, [4990, 17 + 4096, 17]] = 2.5  # one place in two tiles
    logits[1, [5000, 4100]] = 2.5
    logits[2, :] = -torch.inf
    logits[2, 5000] = -9.0
    rows = [sampler.Row(Sampling(temperature=0.0), 0, 0)] * 3
    assert drawn(logits, rows, device) == [17, 4100, 5000]


def test_rows_of_a_wider_buffer_and_of_bf16(device: torch.device) -> None:
    logits = random_logits(2).to(torch.bfloat16)
    wide = torch.full((2, VOCABULARY + 7), 1e4, dtype=torch.bfloat16)
    wide[:, :VOCABULARY] = logits
    rows = [sampler.Row(Sampling(), 3, position) for position in (1, 2)]
    out = torch.full((2,), -1, device=device)
    sampling.sample(wide.to(device)[:, :VOCABULARY], on_device(rows, device), out)
    assert out.tolist() == [draw.tokens[0] for draw in sampler.sample(logits.float(), rows)]


@triton.jit
def _noise_kernel(out_ptr: tl.tensor, seed: tl.int64, position: tl.int64, start: tl.int32, tile: tl.constexpr) -> None:
    tl.store(out_ptr + tl.arange(0, tile), sampling.gumbel(seed, position, start, tile))


@pytest.mark.parametrize(
    ("seed", "position", "start"),
    [pytest.param(0, 0, 0, id="zeros"), pytest.param(0x0123456789ABCDEF, 77, 49_152, id="high words")],
)
def test_noise_has_the_bits_of_the_cpus(seed: int, position: int, start: int, device: torch.device) -> None:
    out = torch.full((1024,), torch.nan, device=device)
    _noise_kernel[(1,)](out, seed, position, start, tile=1024, enable_fp_fusion=False)
    expected = philox.gumbel(seed, position, np.arange(start, start + 1024))
    np.testing.assert_array_equal(out.cpu().numpy(), expected)
