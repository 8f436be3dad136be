"""How many parameters a model has, and how many of them each rank."""

import pytest

from octavo_sizing.model import Model
from octavo_sizing.setup import Setup
from octavo_sizing.weights import parameters, rotary_bytes, weights_bytes, workspace_bytes
from tests.sizing.models import (
    LLAMA_8B,
    LLAMA_70B,
    MISTRAL_7B,
    QWEN2_5_0_5B,
    QWEN2_5_7B,
    QWEN3_8B,
    SMOLLM2_135M,
)


@pytest.mark.parametrize(
    ("model", "published"),
    [
        pytest.param(SMOLLM2_135M, 134_515_008, id="SmolLM2-135M"),
        pytest.param(LLAMA_8B, 8_030_261_248, id="Llama-3.1-8B"),
        pytest.param(LLAMA_70B, 70_553_706_496, id="Llama-3.1-70B"),
        pytest.param(QWEN2_5_0_5B, 494_032_768, id="Qwen2.5-0.5B: biases, tied"),
        pytest.param(QWEN2_5_7B, 7_615_616_512, id="Qwen2.5-7B: biases"),
        pytest.param(QWEN3_8B, 8_190_735_360, id="Qwen3-8B: norms of heads"),
        pytest.param(MISTRAL_7B, 7_241_732_096, id="Mistral-7B"),
    ],
)
def test_parameters_are_as_many_as_its_makers_say(model: Model, published: int) -> None:
    assert parameters(model) == published


@pytest.mark.parametrize(
    ("model", "ranks"),
    [
        pytest.param(LLAMA_70B, 2, id="KV heads split"),
        pytest.param(LLAMA_70B, 8, id="one KV head each"),
        pytest.param(QWEN2_5_7B, 4, id="biases are shared, too"),
    ],
)
def test_ranks_share_all_but_the_norms(model: Model, ranks: int) -> None:
    norms = (2 * model.layers + 1) * model.hidden_size
    assert ranks * (parameters(model, ranks) - norms) + norms == parameters(model)


def test_kv_heads_that_are_fewer_than_ranks_are_held_more_than_once() -> None:
    again = 2 * LLAMA_8B.layers * LLAMA_8B.hidden_size * LLAMA_8B.head_dim
    norms = (2 * LLAMA_8B.layers + 1) * LLAMA_8B.hidden_size
    assert 16 * (parameters(LLAMA_8B, 16) - norms) + norms == parameters(LLAMA_8B) + 8 * again


def test_a_vocabulary_that_does_not_divide_is_rounded_up() -> None:
    """Of 128,256 rows at 5 ranks the first four have 25,652."""
    odd = Model(128256, 10, 10, 1, 5, 5, 2, 100, tied_embeddings=True)
    layer = 10 * (3 * 2 + 2) + 3 * 10 * 2 + 20
    assert parameters(odd, 5) == 25_652 * 10 + layer + 10


def test_weights_are_counted_in_the_type_that_computes() -> None:
    assert weights_bytes(LLAMA_8B, Setup()) == 16_060_522_496
    assert weights_bytes(LLAMA_8B, Setup(dtype="float32")) == 2 * 16_060_522_496


def test_positions_have_a_cosine_and_a_sine_for_each_pair() -> None:
    assert rotary_bytes(LLAMA_8B, 1000) == 1000 * 64 * 2 * 4


@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        pytest.param(Setup(), 64 * 128256 * 10, id="logits of 64 sequences"),
        pytest.param(Setup(max_num_seqs=1), 512 * (8192 + 43008) * 2, id="an MLP over 512 tokens"),
        pytest.param(Setup(max_num_seqs=1, tensor=4), 512 * (8192 + 10752) * 2, id="a quarter of an MLP"),
        pytest.param(Setup(max_num_batched_tokens=8192), 8192 * (8192 + 43008) * 2, id="large steps"),
        pytest.param(Setup(device="cpu"), 512 * (8192 + 43008) * 4, id="CPUs compute in fp32"),
    ],
)
def test_a_steps_workspace_is_its_largest_part(setup: Setup, expected: int) -> None:
    assert workspace_bytes(LLAMA_8B, setup) == expected
