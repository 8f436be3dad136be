"""Whole pages moved as bytes, in every layer."""

import pytest
import torch
from torch import Tensor

from octavo_kernels import reference
from octavo_kernels.gpu.pages import copy_pages, gather_pages, refuse_chains, scatter_pages

# The last two programs of a page share 16,400 bytes: a full one and 16.
SIZES = [pytest.param(48, id="small pages"), pytest.param(16_400, id="pages of two programs")]


def random_bytes(*shape: int, device: torch.device) -> Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8).to(device)


@pytest.mark.parametrize("page_bytes", SIZES)
def test_copies_in_every_layer_as_the_reference_does(page_bytes: int, device: torch.device) -> None:
    pool = random_bytes(3, 6, page_bytes, device=device)
    expected = pool.clone()
    sources, targets = (torch.tensor(ids, device=device) for ids in ([1, 1, 4, 3], [2, 5, 0, 3]))
    for layer in expected:
        reference.copy_pages(layer, sources, targets)
    copy_pages(pool, sources, targets)
    assert torch.equal(pool, expected)


@pytest.mark.parametrize("page_bytes", SIZES)
def test_gathers_pages_and_scatters_them_elsewhere(page_bytes: int, device: torch.device) -> None:
    pool = random_bytes(2, 5, page_bytes, device=device)
    before = pool.clone()
    staging = torch.zeros(3, 2, page_bytes, dtype=torch.uint8, device=device)
    gather_pages(pool, torch.tensor([4, 1], device=device), staging)
    for place, page in enumerate((4, 1)):
        assert torch.equal(staging[place], before[:, page])
    assert not staging[2].any()
    scatter_pages(staging, pool, torch.tensor([2, 3], device=device))
    assert torch.equal(pool, before[:, [0, 1, 4, 1, 4]])


def test_a_pool_may_be_a_part_of_a_larger_one(device: torch.device) -> None:
    whole = random_bytes(2, 4, 96, device=device)
    before = whole.clone()
    copy_pages(whole[:, :, 32:64], torch.tensor([1], device=device), torch.tensor([3], device=device))
    before[:, 3, 32:64] = before[:, 1, 32:64]
    assert torch.equal(whole, before)


@pytest.mark.parametrize(
    ("copies", "message"),
    [
        pytest.param([(1, 2), (2, 3)], "page 2 is a source and a target", id="a chain"),
        pytest.param([(1, 4), (4, 1)], "page 1 is a source and a target", id="a swap"),
        pytest.param([(1, 3), (2, 3)], "page 3 is the target of two", id="one target twice"),
    ],
)
def test_refuses_copies_whose_order_matters(copies: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        refuse_chains(copies)


def test_copies_of_one_source_and_onto_itself_have_no_order() -> None:
    refuse_chains([(1, 2), (1, 3), (4, 4)])


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        pytest.param((2, 4, 40), "multiples of 16 bytes", id="bytes"),
        pytest.param((4, 48), "uint8 \\[L, pages, page_bytes\\]", id="one layer without its dimension"),
    ],
)
def test_refuses_other_pools(shape: tuple[int, ...], message: str, device: torch.device) -> None:
    pool = random_bytes(*shape, device=device)
    ids = torch.tensor([1], device=device)
    with pytest.raises(ValueError, match=message):
        copy_pages(pool, ids, ids)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        pytest.param((1, 2, 48), "\\[≥ 2, L, page_bytes\\]", id="too few places"),
        pytest.param((2, 3, 48), "layers or bytes differ", id="layers"),
    ],
)
def test_refuses_other_staging_buffers(shape: tuple[int, ...], message: str, device: torch.device) -> None:
    pool, staging = random_bytes(2, 4, 48, device=device), random_bytes(*shape, device=device)
    with pytest.raises(ValueError, match=message):
        gather_pages(pool, torch.tensor([1, 2], device=device), staging)
