"""Memory below the pool for a sequence that is longer than it (`--kv-overflow-memory`)."""

import dataclasses

import pytest

from octavo_sizing.budget import host_bytes
from octavo_sizing.errors import DegreeError
from octavo_sizing.fit import Fit, fit
from octavo_sizing.kv_cache import block_bytes, overflow_blocks
from octavo_sizing.limit import cpu_limit_bytes
from octavo_sizing.model import Model
from octavo_sizing.report import FIELDS
from octavo_sizing.setup import Setup
from tests.sizing.models import LLAMA_8B, SMOLLM2_135M

GIB, MIB = 1 << 30, 1 << 20
CPU = Setup(device="cpu", memory_bytes=2 * GIB, kv_bytes=32 * MIB)
GPU = Setup(memory_bytes=24 * GIB)


def fitted(model: Model, setup: Setup) -> Fit:
    return fit(model, setup, FIELDS.tensor, FIELDS.context)


def with_overflow(setup: Setup, size_bytes: int = 256 * MIB, context: int | None = None) -> Setup:
    return dataclasses.replace(setup, overflow_bytes=size_bytes, max_model_len=context)


@pytest.mark.parametrize(
    ("model", "setup"), [pytest.param(SMOLLM2_135M, CPU, id="a CPU"), pytest.param(LLAMA_8B, GPU, id="a GPU")]
)
def test_a_context_may_be_longer_by_what_lies_below(model: Model, setup: Setup) -> None:
    alone, below = fitted(model, setup), fitted(model, with_overflow(setup, GIB))
    assert alone.largest_context_tokens is not None
    assert below.largest_context_tokens is not None
    assert below.blocks is not None
    assert below.largest_context_tokens > alone.largest_context_tokens
    held = (below.blocks + overflow_blocks(model, below.setup)) * below.setup.block_size
    assert below.largest_context_tokens == min(model.max_position, held)
    longest = below.largest_context_tokens
    assert fitted(model, with_overflow(setup, GIB, context=longest)).fits
    assert not fitted(model, dataclasses.replace(setup, max_model_len=longest)).fits


def test_a_page_below_is_a_page_of_all_layers() -> None:
    setup = with_overflow(GPU, GIB)
    assert overflow_blocks(LLAMA_8B, setup) == GIB // (16 * 128 * 1024)
    assert block_bytes(LLAMA_8B, setup) == block_bytes(LLAMA_8B, GPU) * 33 // 32, "the pool has a layer of scratch"


def test_a_gpu_leaves_room_for_one_layer_of_it_and_its_node_for_all() -> None:
    alone, below = fitted(LLAMA_8B, GPU), fitted(LLAMA_8B, with_overflow(GPU, GIB))
    assert alone.budget.left_bytes is not None
    assert below.budget.left_bytes == alone.budget.left_bytes - GIB // 32
    assert host_bytes(with_overflow(GPU, GIB)) == host_bytes(GPU) + GIB


def test_a_pods_limit_holds_it() -> None:
    alone, below = fitted(SMOLLM2_135M, CPU), fitted(SMOLLM2_135M, with_overflow(CPU))
    assert alone.budget.left_bytes is not None
    assert below.budget.left_bytes is not None
    assert alone.budget.left_bytes - below.budget.left_bytes == 256 * MIB
    assert cpu_limit_bytes(SMOLLM2_135M, with_overflow(CPU)) >= cpu_limit_bytes(SMOLLM2_135M, CPU) + 256 * MIB


def test_what_is_needed_is_enough_and_counts_only_what_the_pool_has_to_hold() -> None:
    asked = with_overflow(CPU, context=8192)
    found = fitted(SMOLLM2_135M, dataclasses.replace(asked, memory_bytes=300 * MIB))
    assert not found.fits
    assert found.kv_needed_bytes == fitted(SMOLLM2_135M, with_overflow(CPU, 0, context=1)).kv_needed_bytes
    assert fitted(SMOLLM2_135M, dataclasses.replace(asked, memory_bytes=found.needed_bytes)).fits


def test_it_goes_with_one_rank_only() -> None:
    with pytest.raises(DegreeError, match=r"spec.parallelism.tensor 2: leave it out, or set .* to 1") as raised:
        fitted(LLAMA_8B, dataclasses.replace(with_overflow(GPU), tensor=2))
    assert raised.value.possible == (1,)
    small = dataclasses.replace(with_overflow(GPU), memory_bytes=8 * GIB)
    assert fitted(LLAMA_8B, small).smallest_tensor is None
