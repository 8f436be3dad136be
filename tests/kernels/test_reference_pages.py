"""Writing, copying and reading pages, and attention over them: shuffled page tables, poison wherever nothing was written."""

import numpy as np
import pytest
import torch
from torch import Tensor

from octavo_kernels import reference
from tests.kernels import formulas

# What a slot beyond the context may hold: anything finite. Pages are zeroed once and writers store finite values only.
POISON = 1e30


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def poisoned_layer(pages: int, page_size: int, kv_heads: int, width: int) -> Tensor:
    return torch.full((pages, 2, page_size, kv_heads, width), POISON)


def test_write_kv_changes_its_slots_only() -> None:
    layer = poisoned_layer(5, 3, 2, 4)
    k, v = draw(4, 2, 4), draw(4, 2, 4, seed=1)
    slots = [4 * 3 + 2, 0 * 3 + 1, 2 * 3 + 0, 2 * 3 + 1]
    reference.write_kv(k, v, layer, torch.tensor(slots))
    expected = poisoned_layer(5, 3, 2, 4)
    for token, slot in enumerate(slots):
        expected[slot // 3, 0, slot % 3] = k[token]
        expected[slot // 3, 1, slot % 3] = v[token]
    assert torch.equal(layer, expected)


def test_write_kv_rounds_to_the_type_of_the_pages() -> None:
    layer = torch.zeros(2, 2, 3, 1, 2, dtype=torch.bfloat16)
    k = draw(1, 1, 2)
    reference.write_kv(k, k, layer, torch.tensor([4]))
    assert torch.equal(layer[1, 0, 1], k[0].bfloat16())


@pytest.mark.parametrize(
    ("copies", "after"),
    [
        pytest.param([(1, 2)], [0, 1, 1, 3, 4], id="one"),
        pytest.param([(1, 2), (2, 3), (3, 4)], [0, 1, 1, 2, 3], id="a chain reads before it writes"),
        pytest.param([(1, 4), (4, 1)], [0, 4, 2, 3, 1], id="a swap"),
        pytest.param([(3, 1), (3, 2)], [0, 3, 3, 3, 4], id="one source twice"),
        pytest.param([(2, 2)], [0, 1, 2, 3, 4], id="onto itself"),
    ],
)
def test_copy_pages(copies: list[tuple[int, int]], after: list[int]) -> None:
    before = draw(5, 2, 3, 1, 2)
    layer = before.clone()
    sources, targets = (torch.tensor(ids) for ids in zip(*copies, strict=True))
    reference.copy_pages(layer, sources, targets)
    assert torch.equal(layer, before[after])


def test_gather_kv_follows_the_page_table() -> None:
    layer = draw(6, 2, 3, 2, 4)
    table = torch.tensor([[5, 1], [2, 0]])
    k, v = reference.gather_kv(layer, table)
    assert k.shape == v.shape == (2, 2, 6, 4)
    for sequence, head, slot in np.ndindex(2, 2, 6):
        page = table[sequence, slot // 3]
        assert torch.equal(k[sequence, head, slot], layer[page, 0, slot % 3, head])
        assert torch.equal(v[sequence, head, slot], layer[page, 1, slot % 3, head])


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        pytest.param(None, ["11100", "11110"], id="causal"),
        pytest.param(2, ["01100", "00110"], id="window"),
        pytest.param(1, ["00100", "00010"], id="only itself"),
        pytest.param(9, ["11100", "11110"], id="window longer than the context"),
    ],
)
def test_visible_slots(window: int | None, expected: list[str]) -> None:
    visible = reference.visible_slots(torch.tensor([2, 3]), 5, window)
    assert ["".join(str(int(slot)) for slot in row) for row in visible] == expected


@pytest.mark.parametrize("window", [None, 1, 4], ids=["causal", "window 1", "window 4"])
@pytest.mark.parametrize("group", [1, 3, 4], ids=lambda group: f"group {group}")
@pytest.mark.parametrize(
    ("context", "rows"),
    [
        pytest.param(1, 1, id="first token"),
        pytest.param(3, 3, id="whole prompt"),
        pytest.param(7, 1, id="decode"),
        pytest.param(33, 7, id="chunk of a prompt"),
    ],
)
def test_attention_over_shuffled_poisoned_pages(context: int, rows: int, group: int, window: int | None) -> None:
    page_size, kv_heads, width = 4, 2, 6
    pages = -(-context // page_size) + 1  # one page more than the context, all of it poison
    layer = poisoned_layer(pages + 3, page_size, kv_heads, width)
    table = torch.randperm(pages + 3, generator=torch.Generator().manual_seed(2))[:pages]
    k, v = draw(context, kv_heads, width), draw(context, kv_heads, width, seed=1)
    slots = torch.arange(context)
    reference.write_kv(k, v, layer, table[slots // page_size] * page_size + slots % page_size)
    q = draw(1, rows, kv_heads * group, width, seed=3)

    gathered_k, gathered_v = reference.gather_kv(layer, table[None])
    visible = reference.visible_slots(torch.arange(context - rows, context), pages * page_size, window)
    out = reference.attend_rows(q, gathered_k, gathered_v, visible[None], width**-0.5)

    expected = formulas.attend(q[0].double().numpy(), k.double().numpy(), v.double().numpy(), window)
    np.testing.assert_allclose(out[0].double().numpy(), expected, rtol=2e-5, atol=2e-5)
