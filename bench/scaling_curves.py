"""The curves of `bench scaling`: which steps are measured, and how."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from bench.scaling_floor import Point, Step, decoding_work
from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.loading import LoadedModel, load
from tests.runtime.model.batches import Chunk, attention_meta, shuffled_pages
from tests.runtime.models import save_tiny_model

BATCHES, BATCH_CONTEXT = (1, 2, 4, 8, 16, 32, 64, 128), 256
CONTEXTS, CONTEXT_BATCH = (128, 256, 512, 1024, 2048, 4096, 8192), 4
DEPTHS, DEPTH_BATCH, DEPTH_CONTEXT = (4, 8, 16, 32), 8, 256
KV_BYTES = 2 << 30  # 32k tokens of SmolLM2-135M in fp32
DEEP_KV_BYTES = 256 << 20
DEEP = {  # SmolLM2-135M's layers, so that even 4 of them are larger than most caches; a small vocabulary
    "vocab_size": 1024,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "initializer_range": 0.05,
}


def batches(model: Path, folder: Path) -> list[Step]:
    loaded = _loaded(model, KV_BYTES)
    return [_decoding(loaded, batch, batch, BATCH_CONTEXT) for batch in BATCHES]


def contexts(model: Path, folder: Path) -> list[Step]:
    """As far as the model's positions reach."""
    loaded = _loaded(model, KV_BYTES)
    return [_decoding(loaded, tokens, CONTEXT_BATCH, tokens) for tokens in CONTEXTS if tokens <= loaded.max_model_len]


def depths(model: Path, folder: Path) -> list[Step]:
    """Seeded models of their own, whatever `model` is."""
    steps = []
    for layers in DEPTHS:
        save_tiny_model(folder / str(layers), "llama", num_hidden_layers=layers, **DEEP)
        steps.append(_decoding(_loaded(folder / str(layers), DEEP_KV_BYTES), layers, DEPTH_BATCH, DEPTH_CONTEXT))
    return steps


def measured(steps: Sequence[Step], repeats: int) -> list[Point]:
    """Each step once unmeasured, then all in turns; the least of a step's times counts, as of the machine's limits."""
    for step in steps:
        step.run()
    times_s = [[_seconds(step.run) for step in steps] for _ in range(repeats)]
    return [
        Point(step.x, min(column), step.work) for step, column in zip(steps, zip(*times_s, strict=True), strict=True)
    ]


def _seconds(run: Callable[[], object]) -> float:
    started_s = time.perf_counter()
    run()
    return time.perf_counter() - started_s


def _loaded(model: Path, kv_bytes: int) -> LoadedModel:
    return load(ServeConfig(str(model), device="cpu", kv_cache_memory=kv_bytes), lambda percent: None)


def _decoding(loaded: LoadedModel, x: int, batch: int, context: int) -> Step:
    """One token for each of `batch` sequences that have `context` slots with it, in shuffled pages."""
    config = loaded.decoder.config
    chunks = [Chunk(row, context - 1, 1) for row in range(batch)]
    meta = attention_meta(chunks, shuffled_pages(batch, context, loaded.block_size), loaded.block_size)
    ids = torch.arange(batch) % config.vocab_size

    def run() -> None:
        with torch.inference_mode():
            hidden = loaded.decoder.hidden(ids, meta, loaded.backend, loaded.pool.layers)
            loaded.decoder.likeliest(hidden)

    return Step(x, decoding_work(config, loaded.dtype, batch, context), run)
