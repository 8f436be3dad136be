"""Whether models fit, what they hold, and what would help."""

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_sizing.budget import host_bytes
from octavo_sizing.fit import Fit, fit
from octavo_sizing.kv_cache import block_bytes, token_bytes
from octavo_sizing.model import Model
from octavo_sizing.report import CPU_FIELDS, CPU_FLAGS, FIELDS, FLAGS, arithmetic, verdict
from octavo_sizing.setup import Setup
from octavo_sizing.sharding import possible_degrees
from tests.sizing.models import LLAMA_8B, LLAMA_70B, SMOLLM2_135M

GIB = 1 << 30
H100 = Setup(memory_bytes=80 * GIB)


def fitted(model: Model, setup: Setup) -> Fit:
    return fit(model, setup, FIELDS.tensor, FIELDS.context)


@pytest.mark.parametrize(
    ("model", "setup", "expected"),
    [
        pytest.param(LLAMA_8B, H100, 128 << 10, id="bf16"),
        pytest.param(LLAMA_8B, dataclasses.replace(H100, tensor=4), 32 << 10, id="KV heads split"),
        pytest.param(LLAMA_8B, dataclasses.replace(H100, tensor=16), 16 << 10, id="a KV head on two ranks"),
        pytest.param(LLAMA_8B, dataclasses.replace(H100, keys="fp8", values="fp8"), 65 << 10, id="8 bits and scales"),
        pytest.param(LLAMA_70B, H100, 320 << 10, id="80 layers"),
        pytest.param(SMOLLM2_135M, Setup(device="cpu"), 23040, id="of a CPU"),
        pytest.param(SMOLLM2_135M, Setup(device="cpu", tensor=3), 23040, id="of all ranks of a CPU"),
        pytest.param(SMOLLM2_135M, Setup(device="cpu", keys="dense", values="int8"), 17460, id="K16/V8"),
        pytest.param(SMOLLM2_135M, Setup(device="cpu", lossy=True), 23760, id="pages that hold 8-bit ones, too"),
    ],
)
def test_bytes_of_a_token(model: Model, setup: Setup, expected: int) -> None:
    assert token_bytes(model, setup) == expected


def test_eight_bits_fill_twice_as_many_tokens_into_a_page() -> None:
    narrow = dataclasses.replace(H100, keys="int8", values="int8")
    assert (H100.block_size, narrow.block_size) == (16, 32)
    assert block_bytes(LLAMA_8B, narrow) == 32 * (65 << 10)


def test_llama_8b_on_80_gib() -> None:
    """By hand: 72 GiB less 14.96 of weights, 1 of CUDA, 64 MiB of positions, 1.25 times 64 rows of logits."""
    found = fitted(LLAMA_8B, H100)
    left = 72 * GIB - 16_060_522_496 - GIB - 131072 * 512 - int(1.25 * 64 * 128256 * 10)
    assert found.kv_bytes == left
    assert found.blocks == left // (16 * (128 << 10)) - 1 == 28_611
    assert (found.fits, found.smallest_tensor, found.largest_context_tokens) == (True, 1, 131072)
    assert found.concurrent_tokens == 457_776
    assert verdict(found, FIELDS) == "fits, with contexts of 131,072 tokens"
    assert arithmetic(found) == (
        "90 % of 80 GiB = 72 GiB − weights 14.96 GiB − rotary tables 64 MiB − CUDA and its libraries 1 GiB − workspace of a step "
        "97.85 MiB = 55.88 GiB: 28,611 blocks of 16 tokens of 128 KiB hold 457,776 tokens"
    )


def test_a_small_gpu_keeps_a_reserve_beside_the_percentage() -> None:
    found = fitted(SMOLLM2_135M, Setup(memory_bytes=4 * GIB))
    assert found.budget.usable_bytes == 3 * GIB
    assert "4 GiB − reserve 1 GiB = 3 GiB − weights" in arithmetic(found)


def test_a_model_that_is_too_large_names_the_smallest_degree() -> None:
    found = fitted(LLAMA_70B, H100)
    assert (found.fits, found.blocks, found.smallest_tensor) == (False, 0, 2)
    assert "= −60.6 GiB: 0 blocks" in arithmetic(found)
    assert verdict(found, FIELDS) == (
        "does not fit: at tensor degree 1 each GPU needs 147.35 GiB, and there are 80 GiB; set spec.parallelism.tensor to 2 (the "
        "smallest that fits) or more"
    )
    assert fitted(LLAMA_70B, dataclasses.replace(H100, tensor=2)).fits


def test_a_context_that_is_too_long_names_the_longest() -> None:
    asked = dataclasses.replace(H100, tensor=2, max_model_len=131072)
    found = fitted(LLAMA_70B, asked)
    assert not found.fits
    assert found.smallest_tensor == 4
    longest = found.largest_context_tokens
    assert longest is not None
    assert f"set spec.runtime.maxModelLen to at most {longest:,} (the largest that fits)" in verdict(found, FIELDS)
    assert "--max-model-len" in verdict(found, FLAGS)
    assert fitted(LLAMA_70B, dataclasses.replace(asked, max_model_len=longest)).fits
    assert not fitted(LLAMA_70B, dataclasses.replace(asked, max_model_len=longest + 1)).fits
    assert fitted(LLAMA_70B, dataclasses.replace(asked, tensor=4)).fits


def test_a_models_own_context_may_be_longer_than_what_fits() -> None:
    found = fitted(LLAMA_8B, Setup(memory_bytes=24 * GIB))
    assert found.fits
    assert found.largest_context_tokens == found.concurrent_tokens == 44_912
    assert "at most 44,912 tokens of the model's 131,072, for which it takes 35.69 GiB" in verdict(found, FIELDS)


def test_memory_that_is_needed_is_enough_and_no_byte_of_a_block_too_much() -> None:
    asked = Setup(memory_bytes=1, max_model_len=32768)
    needed = fitted(LLAMA_8B, asked).needed_bytes
    assert fitted(LLAMA_8B, dataclasses.replace(asked, memory_bytes=needed + 64)).fits
    assert not fitted(LLAMA_8B, dataclasses.replace(asked, memory_bytes=needed - (1 << 20))).fits


def test_nothing_helps_where_no_degree_does() -> None:
    found = fitted(LLAMA_70B, Setup(memory_bytes=2 * GIB))
    assert found.smallest_tensor is None
    assert verdict(found, FIELDS).endswith("no tensor degree makes it fit: use GPUs with more memory")


def test_what_is_asked_for_kv_must_be_there() -> None:
    found = fitted(LLAMA_8B, dataclasses.replace(H100, kv_bytes=70 * GIB))
    assert not found.fits
    assert "lower spec.runtime.kvCache.memory to at most 55.88 GiB" in verdict(found, FIELDS)
    small = fitted(LLAMA_8B, dataclasses.replace(H100, kv_bytes=GIB))
    assert (small.fits, small.blocks) == (True, 511)
    assert "= 55.88 GiB, KV 1 GiB: 511 blocks" in arithmetic(small)


@pytest.mark.parametrize(
    ("model", "setup", "needs", "remedy"),
    [
        pytest.param(
            LLAMA_8B,
            Setup(device="cpu", memory_bytes=64 * GIB, max_model_len=32768),
            "a context of 32,768 tokens takes 4.01 GiB of memory for KV, and an automatic pool takes at most 2 GiB",
            "set spec.runtime.kvCache.memory to at least 4.01 GiB; or set spec.runtime.maxModelLen to at most 16,352 ",
            id="automatic pool of a CPU",
        ),
        pytest.param(
            LLAMA_8B,
            Setup(device="cpu", max_model_len=32768),
            "an automatic pool takes at most 2 GiB",
            "set spec.runtime.kvCache.memory to at least 4.01 GiB; or",
            id="no limit",
        ),
        pytest.param(
            LLAMA_8B,
            dataclasses.replace(H100, kv_bytes=GIB, max_model_len=32768),
            "takes 4.01 GiB of memory for KV, and 1 GiB are asked for",
            "set spec.runtime.kvCache.memory to at least 4.01 GiB; or",
            id="a GPU",
        ),
        pytest.param(
            LLAMA_8B,
            dataclasses.replace(H100, kv_bytes=1 << 20),
            "the least of KV pages takes 4 MiB of memory for KV, and 1 MiB are asked for",
            "set spec.runtime.kvCache.memory to at least 4 MiB",
            id="not one page",
        ),
        pytest.param(
            LLAMA_8B,
            Setup(device="cpu", memory_bytes=18 * GIB, max_model_len=32768),
            "the pod needs 19.45 GiB for a context of 32,768 tokens, and there are 18 GiB",
            "set spec.resources.memory to at least 19.46 GiB and set spec.runtime.kvCache.memory to at least 4.01 GiB; or",
            id="memory as well",
        ),
    ],
)
def test_where_memory_for_kv_is_short_more_of_it_is_asked_for(
    model: Model, setup: Setup, needs: str, remedy: str
) -> None:
    found = fitted(model, setup)
    assert not found.fits
    text = verdict(found, CPU_FIELDS)
    assert f"{needs}; {remedy}" in text
    memory = None if setup.memory_bytes is None else max(setup.memory_bytes, found.needed_bytes)
    helped = dataclasses.replace(setup, memory_bytes=memory, kv_bytes=found.kv_needed_bytes)
    assert memory is None or fitted(model, helped).fits
    assert fitted(model, dataclasses.replace(helped, kv_bytes=found.kv_needed_bytes - 1)).fits is not True


def test_a_context_beyond_a_cpus_automatic_pool_takes_memory_for_kv_that_is_asked_for() -> None:
    found = fitted(LLAMA_8B, Setup(device="cpu", memory_bytes=64 * GIB))
    assert found.fits
    assert re.search(
        r"takes [\d.]+ GiB and spec.runtime.kvCache.memory of at least 16.01 GiB$", verdict(found, CPU_FIELDS)
    )
    asked = Setup(device="cpu", memory_bytes=found.context_bytes, max_model_len=131072, kv_bytes=found.kv_context_bytes)
    assert fitted(LLAMA_8B, asked).fits
    assert not fitted(LLAMA_8B, dataclasses.replace(asked, memory_bytes=found.context_bytes - 1)).fits


def test_unknown_memory_gives_what_is_needed() -> None:
    found = fitted(LLAMA_8B, Setup())
    assert (found.fits, found.blocks, found.smallest_tensor) == (None, None, None)
    assert verdict(found, FIELDS).startswith("whether it fits is not known: spec.gpu.memory is not set; at least")
    assert arithmetic(found).endswith("a KV block is 16 tokens of 128 KiB")


def test_a_cpu_without_a_limit_takes_two_gib() -> None:
    found = fitted(SMOLLM2_135M, Setup(device="cpu"))
    assert (found.fits, found.kv_bytes) == (True, 2 * GIB)
    assert found.blocks == 2 * GIB // (32 * 23040) - 1 == 2911


def test_a_cpus_automatic_pool_takes_half_of_what_the_weights_leave() -> None:
    found = fitted(SMOLLM2_135M, Setup(device="cpu", memory_bytes=2 * GIB))
    assert found.budget.left_bytes is not None
    assert found.kv_bytes == found.budget.left_bytes // 2
    three = fitted(SMOLLM2_135M, Setup(device="cpu", memory_bytes=2 * GIB, tensor=3))
    assert three.blocks is not None
    assert found.blocks is not None
    assert three.blocks < found.blocks


def test_a_pod_without_room_says_how_much_it_needs() -> None:
    asked = Setup(device="cpu", memory_bytes=500 << 20, max_model_len=2048)
    found = fitted(SMOLLM2_135M, asked)
    assert not found.fits
    text = verdict(found, CPU_FIELDS)
    assert re.search(r"the pod needs [\d.]+ MiB .*; set spec.resources.memory to at least [\d.]+ MiB$", text)
    assert "the process needs" in verdict(found, CPU_FLAGS)
    assert fitted(SMOLLM2_135M, dataclasses.replace(asked, memory_bytes=found.needed_bytes + 64)).fits


def test_a_memory_tier_is_part_of_a_pods_limit() -> None:
    limit = Setup(device="cpu", memory_bytes=2 * GIB)
    without, tiered = (fitted(SMOLLM2_135M, dataclasses.replace(limit, tier_bytes=size)) for size in (0, GIB))
    assert without.budget.left_bytes is not None
    assert tiered.budget.left_bytes == without.budget.left_bytes - GIB
    assert host_bytes(Setup(tensor=4, tier_bytes=GIB)) > host_bytes(Setup(tensor=2)) + GIB


setups = st.builds(
    Setup,
    memory_bytes=st.integers(GIB, 160 * GIB),
    memory_percent=st.integers(10, 100),
    tensor=st.sampled_from(possible_degrees(LLAMA_8B)),
    max_model_len=st.none() | st.integers(2, 131072),
    page_tokens=st.sampled_from([None, 16, 32, 64]),
)


@settings(deadline=None)
@given(setups)
def test_verdict_and_numbers_agree(setup: Setup) -> None:
    found = fitted(LLAMA_8B, setup)
    assert found.blocks is not None
    assert found.largest_context_tokens is not None
    assert found.fits == (found.blocks * setup.block_size >= (setup.max_model_len or 1))
    if found.smallest_tensor is not None:
        assert fitted(LLAMA_8B, dataclasses.replace(setup, tensor=found.smallest_tensor)).fits
        assert found.fits <= (found.smallest_tensor <= setup.tensor)
    if setup.max_model_len is not None and found.largest_context_tokens:
        assert fitted(LLAMA_8B, dataclasses.replace(setup, max_model_len=found.largest_context_tokens)).fits


@settings(deadline=None)
@given(setups)
def test_more_memory_never_holds_less(setup: Setup) -> None:
    assert setup.memory_bytes is not None
    more = dataclasses.replace(setup, memory_bytes=setup.memory_bytes + GIB)
    assert (fitted(LLAMA_8B, more).blocks or 0) >= (fitted(LLAMA_8B, setup).blocks or 0)
