"""The arithmetic of `bench scaling`: what a step has to do, its floor, and when a curve outgrows that."""

import re

import pytest
import torch

from bench.scaling_floor import Machine, Point, Work, decoding_work, verdict
from octavo_runtime.model.config import ModelConfig

MACHINE = Machine(bytes_per_s=1_000.0, flops_per_s=10_000.0)
CONFIG = ModelConfig(
    vocab_size=100,
    hidden_size=8,
    intermediate_size=16,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=2,
    norm_eps=1e-5,
    rope_theta=1e4,
    max_position=512,
    tied_embeddings=True,
)
QKV, OUT, MLP, HEAD = 8 * (4 + 2 + 2) * 2, 4 * 2 * 8, 3 * 8 * 16, 100 * 8
WEIGHTS = 2 * (QKV + OUT + MLP) + HEAD
KV_OF_A_TOKEN = 2 * 2 * 2 * 2  # layers, keys and values, heads, width


def test_a_step_reads_weights_once_and_every_sequences_keys_and_values() -> None:
    work = decoding_work(CONFIG, torch.bfloat16, batch=3, context=10)
    assert work.weight_bytes == 2 * WEIGHTS
    assert work.kv_bytes == 2 * 3 * 10 * KV_OF_A_TOKEN
    assert work.flops == 3 * 2 * WEIGHTS + 3 * 10 * 2 * (2 * 2 * 4 * 2)  # two products with the context in each layer


@pytest.mark.parametrize(
    ("work", "floor_s"),
    [
        pytest.param(Work(1_500, 500, 10_000), 2.0, id="memory is the limit"),
        pytest.param(Work(500, 0, 30_000), 3.0, id="compute is the limit"),
    ],
)
def test_the_floor_is_the_longer_of_memory_and_compute(work: Work, floor_s: float) -> None:
    assert Point(1, 9.9, work).floor_s(MACHINE) == floor_s


def curve(*times_s: float) -> list[Point]:
    """Points of 1, 2, 4 … whose memory takes as many seconds and whose compute takes nothing."""
    return [Point(2**index, time_s, Work(0, 1_000 * 2**index, 0)) for index, time_s in enumerate(times_s)]


@pytest.mark.parametrize(
    ("points", "said"),
    [
        pytest.param(
            curve(2, 4, 8), "no faster than its floor explains: at worst, from 1 to 2 .* 1.00 ×", id="in step"
        ),
        pytest.param(curve(4, 5, 6), "no faster", id="a fixed part that weighs less and less"),
        pytest.param(curve(1, 2, 8), "GROWS FASTER .* from 1 to 4 .* 2.00 ×", id="faster at the end"),
        pytest.param(curve(4, 2, 8), "GROWS FASTER .* from 2 to 4 .* 2.00 ×", id="faster after a slow start"),
        pytest.param(curve(3), "no faster", id="a single point"),
    ],
)
def test_a_curve_that_outgrows_its_floor_is_named(points: list[Point], said: str) -> None:
    assert re.search(f"^context: .*{said}", verdict("context", points, MACHINE))
