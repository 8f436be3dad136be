"""Our layers against transformers', in fp32, on tiny seeded models: whatever the chunks, the company and the pages."""

from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor

from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.weights import SafetensorsCheckpoint, WeightReader
from tests.runtime.model.batches import Chunk, run_steps
from tests.runtime.models import save_tiny_model

LENGTHS = (19, 7, 1)
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
MODELS: dict[str, tuple[str, dict[str, object]]] = {
    "llama": ("llama", {}),
    "llama, tied, one KV head": ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "llama, as many KV heads, other rope base": (
        "llama",
        {"num_key_value_heads": 8, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
    ),
    "llama 3 rope": ("llama", {"rope_parameters": LLAMA3_ROPE}),
    "mistral with a window": ("mistral", {"sliding_window": 5}),
    "qwen2": ("qwen2", {}),
    "qwen2 with a window": ("qwen2", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}),
    "qwen3": ("qwen3", {}),
}


@pytest.fixture(scope="module", params=MODELS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    architecture, changes = MODELS[request.param]
    return save_tiny_model(tmp_path_factory.mktemp("model"), architecture, **changes)


@pytest.fixture(scope="module")
def decoder(folder: Path) -> Decoder:
    checkpoint = SafetensorsCheckpoint(folder)
    weights = WeightReader(checkpoint, torch.float32, lambda percent: None)
    return Decoder(checkpoint.config, weights, 64, torch.device("cpu"))


@pytest.fixture(scope="module")
def sequences() -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, 256, (length,), generator=generator).tolist() for length in LENGTHS]


@pytest.fixture(scope="module")
def expected(folder: Path, sequences: list[list[int]]) -> list[Tensor]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.inference_mode():
        return [model(torch.tensor([tokens])).logits[0] for tokens in sequences]


def check(logits: list[Tensor], expected: list[Tensor]) -> None:
    for ours, theirs in zip(logits, expected, strict=True):
        # A few hundred fp32 roundings on the way to logits of this size.
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 * float(theirs.abs().max()))


def test_prompts_in_one_chunk(decoder: Decoder, sequences: list[list[int]], expected: list[Tensor]) -> None:
    steps = [[Chunk(row, 0, len(tokens))] for row, tokens in enumerate(sequences)]
    check(run_steps(decoder, sequences, steps), expected)


def test_token_by_token_all_together(decoder: Decoder, sequences: list[list[int]], expected: list[Tensor]) -> None:
    steps = [
        [Chunk(row, start, 1) for row, tokens in enumerate(sequences) if start < len(tokens)]
        for start in range(max(LENGTHS))
    ]
    check(run_steps(decoder, sequences, steps), expected)


def test_ragged_chunks_beside_decodes(decoder: Decoder, sequences: list[list[int]], expected: list[Tensor]) -> None:
    """A decoding sequence first, as the scheduler puts it, then chunks of unequal size, one of one token among them."""
    steps = [
        [Chunk(1, 0, 5)],
        [Chunk(1, 5, 1), Chunk(0, 0, 11), Chunk(2, 0, 1)],
        [Chunk(1, 6, 1), Chunk(0, 11, 3)],
        [Chunk(0, 14, 5)],
    ]
    check(run_steps(decoder, sequences, steps), expected)


def test_positions_beyond_those_asked_for_are_an_error_not_a_wrong_answer(decoder: Decoder) -> None:
    with pytest.raises(IndexError):
        run_steps(decoder, [[1] * 65], [[Chunk(0, 0, 65)]])
