"""`--batch-invariant`: the logits of a token are the same bits in every company, chunk, page size and order of pages.

What the engine does is one of these: a prompt in chunks beside decoding sequences; a preempted sequence recomputed as one prompt,
or a cached prefix continued (decode and prefill of one position must agree); pages wherever they were free.
"""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from octavo_runtime.model.attention import AttentionShape
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.invariance import is_batch_invariant
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.linear import Epilogue, Linear, TiledLinear
from octavo_runtime.model.tiled_attention import TiledBackend
from octavo_runtime.model.torch_compute import TorchCompute
from octavo_runtime.model.weights import SafetensorsCheckpoint, WeightReader
from tests.runtime.model.batches import Chunk, Form, run_steps
from tests.runtime.models import save_tiny_model

LENGTH = 41
COMPANY = (3, 90, 17, 1, 60, 33, 8, 25, 2)
TILED = Form(TiledBackend)
# Widths that neither vectors nor threads divide; three query heads to a KV head; norms per head; a window.
MODELS: dict[str, tuple[str, dict[str, object]]] = {
    "llama": ("llama", {}),
    "llama, odd sizes": (
        "llama",
        {
            "hidden_size": 108,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "head_dim": 12,
            "intermediate_size": 301,
        },
    ),
    "llama, one KV head": ("llama", {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    "mistral with a window": ("mistral", {"sliding_window": 5}),
    "qwen2": ("qwen2", {"num_key_value_heads": 8}),
    "qwen3": ("qwen3", {}),
}


def load(folder: Path, linear: type[Linear] = TiledLinear, dtype: torch.dtype = torch.float32) -> Decoder:
    checkpoint = SafetensorsCheckpoint(folder)
    weights = WeightReader(checkpoint, dtype, lambda percent: None)
    with torch.inference_mode():
        return Decoder(checkpoint.config, weights, 1024, torch.device("cpu"), TorchCompute(linear))


def tokens(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, 256, (length,), generator=generator).tolist() for length in lengths]


def in_chunks(row: int, length: int, size: int) -> list[list[Chunk]]:
    return [[Chunk(row, start, min(size, length - start))] for start in range(0, length, size)]


def in_company(count: int, prefilled: int) -> list[list[Chunk]]:
    """Row 0 alone up to `prefilled`, then token by token amid the last tokens of `count` others, at another place each time."""
    others = [Chunk(row, COMPANY[row - 1] - 1, 1) for row in range(1, count + 1)]
    steps = [[Chunk(0, 0, prefilled)], *([Chunk(row, 0, COMPANY[row - 1])] for row in range(1, count + 1))]
    for position in range(prefilled, LENGTH):
        place = position % (count + 1)
        steps.append([*others[:place], Chunk(0, position, 1), *others[place:]])
    return steps


BESIDE_PROMPTS = [
    [Chunk(1, 0, 3), Chunk(0, 0, 11), Chunk(2, 0, 90)],
    [Chunk(1, 2, 1), Chunk(3, 0, 17), Chunk(0, 11, 29)],
    [Chunk(1, 2, 1), Chunk(0, 40, 1), Chunk(5, 0, 60)],
]
WAYS: dict[str, tuple[list[list[Chunk]], Form]] = {
    **{f"in chunks of {size}": (in_chunks(0, LENGTH, size), TILED) for size in (1, 3, 7, 16)},
    **{f"amid {count} others": (in_company(count, LENGTH - 6), TILED) for count in range(1, len(COMPANY) + 1)},
    "beside prompts": (BESIDE_PROMPTS, TILED),
    "in larger pages": (in_chunks(0, LENGTH, LENGTH), dataclasses.replace(TILED, page_size=32)),
    "in other pages": (in_chunks(0, LENGTH, 20), dataclasses.replace(TILED, seed=8)),
}


@pytest.fixture(scope="module", params=MODELS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    architecture, changes = MODELS[request.param]
    return save_tiny_model(tmp_path_factory.mktemp("model"), architecture, **changes)


@pytest.fixture(scope="module")
def decoder(folder: Path) -> Decoder:
    return load(folder)


@pytest.fixture(scope="module")
def alone(decoder: Decoder) -> Tensor:
    """Logits of row 0, its whole prompt alone."""
    return run_steps(decoder, tokens(LENGTH), in_chunks(0, LENGTH, LENGTH), TILED)[0]


@pytest.mark.parametrize("way", WAYS)
def test_logits_are_the_same_bits(decoder: Decoder, alone: Tensor, way: str) -> None:
    steps, form = WAYS[way]
    assert torch.equal(run_steps(decoder, tokens(LENGTH, *COMPANY), steps, form)[0], alone)


@pytest.mark.parametrize("threads", [1, 2, 3], ids=lambda threads: f"{threads} threads")
def test_long_contexts_and_wide_steps_are_the_same_bits(tmp_path: Path, threads: int) -> None:
    """Across the edge of a block of keys, and with more rows than one thread takes."""
    model = load(save_tiny_model(tmp_path, max_position_embeddings=1024, intermediate_size=301))
    sequences = tokens(530, 1010)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        whole = run_steps(model, sequences, [[Chunk(0, 0, 530)]], TILED)[0]
        parts = [[Chunk(1, 0, 501)], [Chunk(1, 501, 509)], [Chunk(0, 0, 500)]]
        decodes = [[Chunk(1, 1009, 1), Chunk(0, position, 1)] for position in range(500, 530)]
        assert torch.equal(run_steps(model, sequences, [*parts, *decodes], TILED)[0], whole)
    finally:
        torch.set_num_threads(before)


def test_bfloat16_logits_are_the_same_bits(tmp_path: Path) -> None:
    model = load(save_tiny_model(tmp_path, num_hidden_layers=1), dtype=torch.bfloat16)
    sequences = tokens(LENGTH, *COMPANY)
    whole = run_steps(model, sequences, in_chunks(0, LENGTH, LENGTH), TILED, torch.bfloat16)[0]
    for steps in (in_company(9, LENGTH - 3), in_chunks(0, LENGTH, 7), BESIDE_PROMPTS):
        assert torch.equal(run_steps(model, sequences, steps, TILED, torch.bfloat16)[0], whole)


def test_tiles_change_only_the_last_bits(folder: Path, alone: Tensor) -> None:
    ordinary = run_steps(load(folder, Linear), tokens(LENGTH), in_chunks(0, LENGTH, LENGTH))[0]
    torch.testing.assert_close(alone, ordinary, rtol=0, atol=1e-5 * float(ordinary.abs().max()))


class Uneven(Linear):
    """What a library may do: another order of additions for another number of rows, here in a form that every CPU shows."""

    def __call__(self, x: Tensor, epilogue: Epilogue = "none", addend: Tensor | None = None) -> Tensor:
        return super().__call__(x, epilogue, addend) * (1.0 + len(x) * 2.0**-18)


def test_the_ways_above_tell_products_that_depend_on_the_company(tmp_path: Path) -> None:
    model = load(save_tiny_model(tmp_path), Uneven)
    whole = run_steps(model, tokens(LENGTH), in_chunks(0, LENGTH, LENGTH), Form())[0]
    differing = [
        way
        for way, (steps, form) in WAYS.items()
        if not torch.equal(run_steps(model, tokens(LENGTH, *COMPANY), steps, Form(page_size=form.page_size))[0], whole)
    ]
    assert differing


def measured(decoder: Decoder, pages: int) -> tuple[bool, KvPool]:
    config = decoder.config
    backend = TiledBackend(AttentionShape(config.heads, config.kv_heads, config.head_dim, 16, torch.float32))
    pool = KvPool(config.layers, pages, backend.page_bytes, torch.device("cpu"))
    return is_batch_invariant(decoder, backend, pool, 16, 1024), pool


@pytest.mark.parametrize("pages", [1, 5, 40], ids=lambda pages: f"{pages} pages")
def test_the_measurement_at_load_finds_tiles_invariant_and_leaves_clean_pages(decoder: Decoder, pages: int) -> None:
    found, pool = measured(decoder, pages)
    assert found
    assert not any(layer.any() for layer in pool.layers)


def test_the_measurement_at_load_finds_products_that_depend_on_the_company(tmp_path: Path) -> None:
    found, _ = measured(load(save_tiny_model(tmp_path), Uneven), 40)
    assert not found
