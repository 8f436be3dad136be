"""The back ends in torch: a ragged batch over shuffled pages against the formula, and the options that it refuses."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from octavo_runtime.model.attention import AttentionMeta, AttentionShape, Importance, ReferenceBackend
from octavo_runtime.model.config import ModelError
from octavo_runtime.model.tiled_attention import TiledBackend
from tests.kernels import formulas
from tests.runtime.model.batches import PAGE_SIZE, POISON, Chunk, attention_meta, shuffled_pages

HEADS, KV_HEADS, WIDTH = 6, 2, 8
CONTEXTS = (1, 9, 33, 7)
KINDS = [pytest.param(ReferenceBackend, id="reference"), pytest.param(TiledBackend, id="tiled")]


def backend(dtype: torch.dtype = torch.float32, kind: type[ReferenceBackend] = ReferenceBackend) -> ReferenceBackend:
    return kind(AttentionShape(HEADS, KV_HEADS, WIDTH, PAGE_SIZE, dtype))


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def poisoned_layer(pages: int, of: ReferenceBackend) -> Tensor:
    layer = torch.empty(pages + 1, of.page_bytes, dtype=torch.uint8)
    layer.view(torch.float32).fill_(POISON)
    return layer


@dataclasses.dataclass(frozen=True)
class Cache:
    """Sequences of CONTEXTS tokens, all but the last chunk's already written."""

    layer: Tensor
    table: Tensor
    keys: list[Tensor]
    values: list[Tensor]


@pytest.fixture
def cache() -> Cache:
    table = shuffled_pages(len(CONTEXTS), max(CONTEXTS))
    keys = [draw(context, KV_HEADS, WIDTH, seed=10 + i) for i, context in enumerate(CONTEXTS)]
    values = [draw(context, KV_HEADS, WIDTH, seed=20 + i) for i, context in enumerate(CONTEXTS)]
    layer = poisoned_layer(table.numel(), backend())
    for row, context in enumerate(CONTEXTS):
        backend().write(keys[row], values[row], layer, attention_meta([Chunk(row, 0, context)], table))
    return Cache(layer, table, keys, values)


def last_tokens(*counts: tuple[int, int]) -> list[Chunk]:
    """The last `count` tokens of each row."""
    return [Chunk(row, CONTEXTS[row] - count, count) for row, count in counts]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [None, 1, 5], ids=["causal", "window 1", "window 5"])
@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(last_tokens((0, 1)), id="one token of one"),
        pytest.param(last_tokens((2, 1), (0, 1), (3, 1), (1, 1)), id="decodes"),
        pytest.param(last_tokens((1, 3), (2, 33)), id="chunks"),
        pytest.param(last_tokens((3, 1), (0, 1), (2, 7), (1, 2)), id="decodes, then chunks"),
        pytest.param(last_tokens((1, 2), (3, 1), (2, 7)), id="one token after a chunk"),
    ],
)
def test_attends_as_the_formula(
    cache: Cache, chunks: list[Chunk], window: int | None, kind: type[ReferenceBackend]
) -> None:
    meta = attention_meta(chunks, cache.table)
    q = draw(sum(chunk.count for chunk in chunks), HEADS, WIDTH, seed=1)
    out = backend(kind=kind).attend(q, cache.layer, meta, WIDTH**-0.5, window, None, None)
    parts = torch.split(q.double(), [chunk.count for chunk in chunks])
    expected = [
        formulas.attend(part.numpy(), cache.keys[c.row].double().numpy(), cache.values[c.row].double().numpy(), window)
        for part, c in zip(parts, chunks, strict=True)
    ]
    np.testing.assert_allclose(out.double().numpy(), np.concatenate(expected), rtol=2e-5, atol=2e-5)


def test_one_backend_serves_steps_and_windows_in_turn(cache: Cache) -> None:
    """What it keeps of a step for all layers does not leak into the next step or into a layer of another window."""
    one = backend()
    steps = [attention_meta(last_tokens((row, 1)), cache.table) for row in (2, 1)]
    q = draw(1, HEADS, WIDTH, seed=1)

    def attend(by: ReferenceBackend, meta: AttentionMeta, window: int | None) -> Tensor:
        return by.attend(q, cache.layer, meta, 1.0, window, None, None)

    for meta in (*steps, *steps):
        for window in (None, 2, None):
            assert torch.equal(attend(one, meta, window), attend(backend(), meta, window))


def test_pages_take_the_bytes_that_they_say() -> None:
    wide, narrow = backend(), backend(torch.bfloat16)
    assert wide.page_bytes == 2 * PAGE_SIZE * KV_HEADS * WIDTH * 4
    assert narrow.page_bytes == wide.page_bytes // 2
    assert wide.layout_id != narrow.layout_id


def test_tiled_pages_are_not_taken_for_others() -> None:
    """Equal bytes of pages, but keys and values differ in the last bits."""
    tiled = backend(kind=TiledBackend)
    assert tiled.page_bytes == backend().page_bytes
    assert tiled.layout_id != backend().layout_id


@pytest.mark.parametrize("kind", KINDS)
def test_tells_how_much_attention_pages_get(cache: Cache, kind: type[ReferenceBackend]) -> None:
    """Of those that ask, added to what is there; what it attends to is the same to the bit."""
    chunks = last_tokens((2, 1), (0, 1), (1, 5), (3, 2))
    meta = attention_meta(chunks, cache.table)
    q = draw(sum(chunk.count for chunk in chunks), HEADS, WIDTH, seed=1)
    importance = Importance((0, 2), torch.ones(2, meta.page_table.shape[1]))
    out = backend(kind=kind).attend(q, cache.layer, meta, WIDTH**-0.5, None, None, None, importance)
    assert torch.equal(out, backend(kind=kind).attend(q, cache.layer, meta, WIDTH**-0.5, None, None, None))
    rows = [(q[0:1], cache.keys[2]), (q[2:7], cache.keys[1])]
    for mass, (queries, keys) in zip(importance.mass, rows, strict=True):
        expected = formulas.attention_to_pages(queries.double().numpy(), keys.double().numpy(), PAGE_SIZE)
        np.testing.assert_allclose(mass[: len(expected)] - 1, expected, rtol=2e-5, atol=2e-5)
        assert bool((mass[len(expected) :] == 1).all())
        assert float(mass.sum() - len(mass)) == pytest.approx(len(queries), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", ["softcap", "sinks"])
def test_an_option_that_it_lacks_is_refused(cache: Cache, option: str, kind: type[ReferenceBackend]) -> None:
    meta = attention_meta(last_tokens((0, 1)), cache.table)
    options = {"softcap": None, "sinks": None, option: torch.ones(1)}
    with pytest.raises(ModelError, match=f"{kind.name} attention back end has no softcap or sinks"):
        backend(kind=kind).attend(torch.ones(1, HEADS, WIDTH), cache.layer, meta, 1.0, None, **options)  # type: ignore[arg-type]  # any value does


@pytest.mark.parametrize(
    ("q_lens", "decodes"), [((1, 1, 1), 3), ((1, 1, 4), 2), ((3, 1), 0), ((1, 2, 1), 1), ((2,), 0)], ids=str
)
def test_decodes_are_the_leading_sequences_of_one_token(q_lens: tuple[int, ...], decodes: int) -> None:
    chunks = [Chunk(0, 5, count) for count in q_lens]
    assert attention_meta(chunks, shuffled_pages(1, 16)).decodes == decodes
