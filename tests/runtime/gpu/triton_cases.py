"""The Triton back end under a whole model and under the device's runner.

Run by `test_triton.py` in a process of its own, where Triton interprets or, on a GPU, compiles: a process can do one of both only.
Interpreted programs are slow, so models and batches are the smallest that reach every path.
"""

import dataclasses
import os
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from octavo_kernels.kv_form import KvForm, KvKind
from octavo_runtime.engine.device_runner import DeviceRunner, RunnerLimits
from octavo_runtime.engine.device_stream import CudaStream
from octavo_runtime.engine.early_attention import narrowed
from octavo_runtime.messages import Sampling
from octavo_runtime.model.attention import (
    AttentionBackend,
    AttentionMeta,
    AttentionShape,
    Importance,
    ReferenceBackend,
)
from octavo_runtime.model.attention_parts import Block, Part, attend_blocks
from octavo_runtime.model.config import ModelError
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.rotary import Rotary
from octavo_runtime.model.triton_attention import TritonBackend
from octavo_runtime.model.triton_compute import TritonCompute
from octavo_runtime.model.triton_sampler import triton_sample
from octavo_sizing.errors import KvFormError
from octavo_sizing.fit import fit
from octavo_sizing.setup import Setup
from tests.runtime.engine.tiny_engine import ask, prompt
from tests.runtime.gpu.devices import (
    MAX_MODEL_LEN,
    PAGE,
    Sizes,
    answers,
    host_runner,
    random_decoder,
    reference_backend,
)
from tests.runtime.gpu.inline_stream import InlineStream
from tests.runtime.gpu.random_weights import TINY
from tests.runtime.model.batches import POISON, Chunk, attention_meta, shuffled_pages
from tests.sizing.models import SMOLLM2_135M

DEVICE = torch.device(os.environ.get("OCTAVO_TEST_DEVICE", "cpu"))
DENSE = KvForm(PAGE)
SEEDED = Sampling(temperature=1.2, top_p=0.95, top_k=50, min_p=0.001)
ONE_LAYER = dataclasses.replace(TINY, layers=1)
SMALL = Sizes(pages=24, max_num_seqs=3, max_num_batched_tokens=24)


def shape_of(decoder: Decoder, form: KvForm = DENSE) -> AttentionShape:
    config = decoder.config
    return AttentionShape(config.heads, config.kv_heads, config.head_dim, form.page_size, torch.float32, (form,))


def backend_of(decoder: Decoder, form: KvForm = DENSE) -> TritonBackend:
    shape = shape_of(decoder, form)
    return TritonBackend(shape, most_sequences=4, processors=2, device=DEVICE)


def on_device(meta: AttentionMeta) -> AttentionMeta:
    return dataclasses.replace(
        meta,
        cu_q=meta.cu_q.to(DEVICE),
        kv_len=meta.kv_len.to(DEVICE),
        pos=meta.pos.to(DEVICE),
        page_table=meta.page_table.to(DEVICE),
        slot_map=meta.slot_map.to(DEVICE),
    )


def logits(decoder: Decoder, backend: AttentionBackend, sequences: list[list[int]], steps: list[list[Chunk]]) -> Tensor:
    """Of every token of every sequence, one below the other, computed in these steps over shuffled, poisoned pages."""
    table = shuffled_pages(len(sequences), max(map(len, sequences)), PAGE)
    pool = KvPool(decoder.config.layers, table.numel(), backend.page_bytes, DEVICE)
    for layer in pool.layers:
        layer.view(torch.float32).fill_(POISON)
    out = [torch.full((len(tokens), decoder.config.vocab_size), torch.nan) for tokens in sequences]
    for chunks in steps:
        ids = [token for chunk in chunks for token in sequences[chunk.row][chunk.start : chunk.start + chunk.count]]
        meta = on_device(attention_meta(chunks, table, PAGE))
        with torch.inference_mode():
            ids_there = torch.tensor(ids, device=DEVICE)
            hidden = decoder.hidden(ids_there, meta, backend, pool.layers)
            given = decoder.logits(hidden).cpu()
        for chunk, part in zip(chunks, torch.split(given, [chunk.count for chunk in chunks]), strict=True):
            out[chunk.row][chunk.start : chunk.start + chunk.count] = part
    return torch.cat(out)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="llama"),
        pytest.param(
            {"qk_norm": True, "qkv_bias": True, "window": 5, "heads": 6, "kv_heads": 3, "head_dim": 24},
            id="norms of heads, biases, a window, 24 wide heads",
        ),
    ],
)
def test_logits_are_the_references(changes: dict[str, object]) -> None:
    """One prompt in one step; chunks beside decodes; a few tokens over a long prefix; a decoding batch."""
    config = dataclasses.replace(ONE_LAYER, **changes)  # type: ignore[arg-type]  # a table
    sequences = [prompt("a", 19), prompt("b", 4), prompt("c", 12)]
    steps = [
        [Chunk(0, 0, 17), Chunk(1, 0, 2)],
        [Chunk(1, 2, 1), Chunk(2, 0, 9)],
        [Chunk(0, 17, 1), Chunk(1, 3, 1), Chunk(2, 9, 2)],
        [Chunk(2, 11, 1), Chunk(0, 18, 1)],
    ]
    plain, fused = random_decoder(config, DEVICE), random_decoder(config, DEVICE, TritonCompute())
    expected = logits(plain, reference_backend(plain), sequences, steps)
    given = logits(fused, backend_of(fused), sequences, steps)
    assert expected.isfinite().all()
    torch.testing.assert_close(given, expected, rtol=2e-4, atol=2e-4 * float(expected.abs().max()))


def test_logits_over_8_bits_are_the_references() -> None:
    """But for values that lie between two codes, which fp32's last bits decide."""
    form, sequences = KvForm(PAGE, "int8", "int8"), [prompt("a", 19), prompt("b", 4)]
    steps = [[Chunk(0, 0, 18), Chunk(1, 0, 2)], [Chunk(0, 18, 1), Chunk(1, 2, 2)]]
    plain, fused = random_decoder(ONE_LAYER, DEVICE), random_decoder(ONE_LAYER, DEVICE, TritonCompute())
    expected = logits(plain, ReferenceBackend(shape_of(plain, form)), sequences, steps)
    given = logits(fused, backend_of(fused, form), sequences, steps)
    torch.testing.assert_close(given, expected, rtol=0, atol=0.01 * float(expected.abs().max()))


@pytest.mark.parametrize(("keys", "values"), [("dense", "int8"), ("int8", "fp8")])
def test_keys_and_values_of_different_types_are_refused(keys: KvKind, values: KvKind) -> None:
    shape = dataclasses.replace(shape_of(random_decoder(ONE_LAYER, DEVICE)), forms=(KvForm(PAGE, keys, values),))
    with pytest.raises(ModelError, match=f"{keys} keys and {values} values: the GPU kernels have .* use --device cpu"):
        TritonBackend(shape, most_sequences=4, processors=2, device=DEVICE)


def test_pages_get_the_attention_that_the_reference_says() -> None:
    """Of one token, and of chunks, beside a sequence that does not ask."""
    decoder = random_decoder(ONE_LAYER, DEVICE, TritonCompute())
    backends: list[AttentionBackend] = [reference_backend(decoder), backend_of(decoder)]
    sequences = [prompt("a", 33), prompt("b", 17), prompt("c", 40)]
    masses = []
    for backend in backends:
        table = shuffled_pages(3, 40, PAGE)
        pool = KvPool(ONE_LAYER.layers, table.numel(), backend.page_bytes, DEVICE)
        for chunks in ([Chunk(0, 0, 32), Chunk(1, 0, 17)], [Chunk(0, 32, 1), Chunk(2, 0, 40)]):
            width = -(-max(chunk.start + chunk.count for chunk in chunks) // PAGE)
            asking = (0, 1) if chunks[0].count == 1 else (1,)
            importance = Importance(asking, torch.zeros(len(asking), width, device=DEVICE))
            meta = dataclasses.replace(on_device(attention_meta(chunks, table, PAGE)), importance=importance)
            ids = [token for chunk in chunks for token in sequences[chunk.row][chunk.start : chunk.start + chunk.count]]
            with torch.inference_mode():
                decoder.hidden(torch.tensor(ids, device=DEVICE), meta, backend, pool.layers)
            masses.append(importance.mass.cpu())
    for given, expected in zip(masses[2:], masses[:2], strict=True):
        torch.testing.assert_close(given, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("form", "window"),
    [pytest.param(DENSE, None, id="dense"), pytest.param(KvForm(PAGE, "int8", "int8"), 20, id="8 bits and a window")],
)
def test_parts_of_a_context_merged_are_attention_over_all_of_it(form: KvForm, window: int | None) -> None:
    """The first pages read as the host reads them; decodes, a few tokens, a chunk, and a sequence that has no such pages."""
    backend = backend_of(random_decoder(ONE_LAYER, DEVICE), form)
    shape, early = backend.shape, [2, 0, 1, 2]
    chunks = [Chunk(0, 40, 1), Chunk(1, 3, 1), Chunk(2, 33, 2), Chunk(0, 33, 9)]
    table = shuffled_pages(3, 48, PAGE)
    layer = KvPool(1, table.numel(), backend.page_bytes, DEVICE).layers[0]
    written = on_device(attention_meta([Chunk(row, 0, 48) for row in range(3)], table, PAGE))
    cos, sin = torch.ones(48, shape.head_dim // 2, device=DEVICE), torch.zeros(48, shape.head_dim // 2, device=DEVICE)
    qkv = torch.randn(144, shape.heads + 2 * shape.kv_heads, shape.head_dim, generator=torch.Generator().manual_seed(3))
    q = backend.rotate_and_write(qkv.to(DEVICE), Rotary(cos, sin), None, layer, written)[: 1 + 1 + 2 + 9].contiguous()
    meta, lower = on_device(attention_meta(chunks, table, PAGE)), layer.cpu()
    rest = narrowed(meta, torch.tensor(early, device=DEVICE), early, PAGE)
    late, first = backend.attend_part(q, layer, rest, 0.2, window), []
    for rows, chunk, pages in zip(torch.split(q.cpu(), list(meta.q_lens)), chunks, early, strict=True):
        keys, values = backend.read(lower, table[chunk.row, :pages])
        first.append(
            attend_blocks(rows, [Block(0, keys, values)] if pages else [], shape.kv_heads, 0.2, window, chunk.start)
        )
    whole = Part(*(torch.cat(parts).to(DEVICE) for parts in zip(*first, strict=True)))
    given = backend.merge(whole, late, torch.float32)
    torch.testing.assert_close(given, backend.attend(q, layer, meta, 0.2, window, None, None), rtol=1e-4, atol=1e-5)


def test_heads_wider_than_the_kernels_are_refused() -> None:
    with pytest.raises(ModelError, match=r"head dimension 320: .* up to 256; use --device cpu"):
        TritonBackend(AttentionShape(8, 2, 320, PAGE, torch.bfloat16), most_sequences=4, processors=2, device=DEVICE)


def test_the_runner_gives_the_tokens_of_the_host_runner() -> None:
    """Kernels, recorded decode steps and the device's sampler together, one step ahead of the scheduler."""
    shared = prompt("shared", 17)
    requests = [
        ask("greedy", prompt("a", 4), max_tokens=3),
        ask("first", shared, SEEDED, max_tokens=3, seed=2**64 - 1),
        ask("second", [*shared, 1], SEEDED, max_tokens=2, n=2, seed=7, stop_ids=[3, 77], min_tokens=2),
    ]
    decoder = random_decoder(ONE_LAYER, DEVICE, TritonCompute())
    backend = backend_of(decoder)
    pool = KvPool(ONE_LAYER.layers, SMALL.pages, backend.page_bytes, DEVICE)
    limits = RunnerLimits(PAGE, SMALL.max_num_seqs, MAX_MODEL_LEN, SMALL.max_num_batched_tokens)
    stream = InlineStream() if DEVICE.type == "cpu" else CudaStream(DEVICE)
    runner = DeviceRunner(decoder, backend, pool, triton_sample, stream, limits)
    list(runner.record())
    given = answers(runner, requests, SMALL)
    assert given.tokens == answers(host_runner(random_decoder(ONE_LAYER), SMALL), requests, SMALL).tokens
    assert given.most_in_flight == 2


@pytest.mark.parametrize("keys", ["dense", "int8", "fp8"])
@pytest.mark.parametrize("values", ["dense", "int8", "fp8"])
def test_sizing_refuses_the_keys_and_values_that_the_back_end_does(keys: KvKind, values: KvKind) -> None:
    def sized() -> None:
        fit(SMOLLM2_135M, Setup(keys=keys, values=values), "", "")

    def made() -> None:
        TritonBackend(shape_of(random_decoder(ONE_LAYER), KvForm(PAGE, keys, values)), 1, 1, DEVICE)

    assert _raises(KvFormError, sized) == _raises(ModelError, made)


def _raises(error: type[Exception], call: Callable[[], None]) -> bool:
    try:
        call()
    except error:
        return True
    return False
