"""All layers in one call of the CPU kernels: bit for bit what their calls one by one give."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from octavo_kernels.cpu.kernels import CpuKernels
from octavo_kernels.cpu.library import best_library
from octavo_runtime.model.attention import AttentionShape, Importance
from octavo_runtime.model.compute import Layers, LayerWeights
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.cpu_attention import CpuBackend
from octavo_runtime.model.cpu_compute import CpuCompute
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.layers import LayerLoop
from octavo_runtime.model.rotary import Rotary
from octavo_runtime.model.weights import SafetensorsCheckpoint, WeightReader
from tests.kernels.cpu.available import cpu_kernels_run
from tests.runtime.model.batches import Chunk, Form, attention_meta, run_steps, shuffled_pages
from tests.runtime.models import save_tiny_model

pytestmark = pytest.mark.skipif(not cpu_kernels_run(), reason="the CPU kernels do not run here")

MODELS: dict[str, tuple[str, dict[str, object]]] = {
    "llama": ("llama", {}),
    "a hidden size beyond whole spans": ("llama", {"hidden_size": 88, "intermediate_size": 144}),
    "a window and biases": ("qwen2", {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 0}),
    "norms of heads": ("qwen3", {}),
}
STEPS = [
    [Chunk(1, 0, 40), Chunk(0, 0, 7)],
    [Chunk(0, 7, 1), Chunk(1, 40, 1)],
    [Chunk(0, 8, 1)],
    [Chunk(1, 41, 1), Chunk(0, 9, 70)],
]


class OneByOne(CpuCompute):
    def layers(self, config: ModelConfig, weights: Sequence[LayerWeights], rotary: Rotary) -> Layers:
        return LayerLoop(config, weights, rotary, self)


@pytest.mark.parametrize("model", MODELS)
def test_one_call_gives_the_bits_of_many(model: str, tmp_path: Path) -> None:
    architecture, changes = MODELS[model]
    folder = save_tiny_model(tmp_path, architecture, **changes)
    kernels = CpuKernels(best_library(threads=2))
    generator = torch.Generator().manual_seed(5)
    sequences = [torch.randint(0, 256, (length,), generator=generator).tolist() for length in (79, 42)]

    def logits(compute: type[CpuCompute]) -> list[Tensor]:
        checkpoint = SafetensorsCheckpoint(folder)
        weights = WeightReader(checkpoint, torch.bfloat16, lambda percent: None)
        decoder = Decoder(checkpoint.config, weights, 128, torch.device("cpu"), compute(kernels))
        form = Form(lambda shape: CpuBackend(shape, kernels), page_size=32)
        return run_steps(decoder, sequences, STEPS, form, torch.bfloat16)

    at_once, one_by_one = logits(CpuCompute), logits(OneByOne)
    for row, other in zip(at_once, one_by_one, strict=True):
        assert torch.isfinite(row).all()
        assert torch.equal(row, other)


def test_one_call_tells_the_attention_of_pages_as_many_do(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path)
    kernels = CpuKernels(best_library(threads=2))
    ids, table = torch.arange(90), shuffled_pages(2, 50, 32)
    chunks = [Chunk(0, 0, 40), Chunk(1, 0, 50)]

    def mass(compute: type[CpuCompute]) -> Tensor:
        checkpoint = SafetensorsCheckpoint(folder)
        config = checkpoint.config
        weights = WeightReader(checkpoint, torch.bfloat16, lambda percent: None)
        decoder = Decoder(config, weights, 128, torch.device("cpu"), compute(kernels))
        shape = AttentionShape(config.heads, config.kv_heads, config.head_dim, 32, torch.bfloat16)
        backend = CpuBackend(shape, kernels)
        pool = KvPool(config.layers, table.numel(), backend.page_bytes, torch.device("cpu"))
        importance = Importance((1,), torch.zeros(1, 2))
        meta = dataclasses.replace(attention_meta(chunks, table, 32), importance=importance)
        with torch.inference_mode():
            decoder.hidden(ids, meta, backend, pool.layers)
        return importance.mass

    at_once = mass(CpuCompute)
    assert torch.equal(at_once, mass(OneByOne))
    assert float(at_once.sum()) == pytest.approx(50 * 2, rel=1e-3)
