"""Keys and values into pages: the bytes of the reference in their slots, and no other byte changed."""

import pytest
import torch
from torch import Tensor

from octavo_kernels import reference, reference_paged
from octavo_kernels.gpu.kv_write import kv_write
from octavo_kernels.page_layout import KvFormat, PageLayout

POISON = 0xA5


def draw(tokens: int, layout: PageLayout, device: torch.device) -> tuple[Tensor, Tensor]:
    """k and v as views of a qkv buffer with one query head."""
    heads = layout.kv_heads
    qkv = torch.randn(tokens, 1 + 2 * heads, layout.head_dim, generator=torch.Generator().manual_seed(1))
    qkv = qkv.to(device, layout.dtype)
    return qkv[:, 1 : 1 + heads], qkv[:, 1 + heads :]


def poisoned(pages: int, layout: PageLayout, device: torch.device) -> Tensor:
    return torch.full((pages, layout.page_bytes + 32), POISON, dtype=torch.uint8, device=device)  # longer than need be


@pytest.mark.parametrize("kv_format", ["dense", "fp8_head", "fp8_token", "int8_token"])
@pytest.mark.parametrize(
    ("kv_heads", "head_dim", "page_size", "dtype"),
    [
        pytest.param(1, 64, 16, torch.bfloat16, id="one head in bf16"),
        pytest.param(3, 80, 5, torch.float16, id="odd shapes in fp16"),
        pytest.param(2, 128, 4, torch.float32, id="fp32"),
    ],
)
def test_writes_the_reference_s_bytes(
    kv_heads: int, head_dim: int, page_size: int, dtype: torch.dtype, kv_format: KvFormat, device: torch.device
) -> None:
    layout = PageLayout(kv_heads, head_dim, page_size, dtype, kv_format)
    k, v = draw(4, layout, device)
    k[2] *= 1e3  # beyond 448 with a head's scale
    slots = torch.tensor([4 * page_size, 2 * page_size - 1, 2 * page_size, 3 * page_size + 1], device=device)
    head_scales = None
    if kv_format == "fp8_head":
        head_scales = torch.linspace(0.003, 0.02, 2 * kv_heads, device=device).view(2, kv_heads)
    written, expected = poisoned(5, layout, device), poisoned(5, layout, device)
    kv_write(k, v, written, slots, layout, head_scales)
    reference_paged.write_kv(k, v, expected, slots, layout, head_scales)
    assert torch.equal(written, expected)


def test_a_dense_page_holds_the_values_of_the_plain_reference(device: torch.device) -> None:
    layout = PageLayout(2, 64, 4, torch.float32)
    k, v = draw(3, layout, device)
    slots = torch.tensor([5, 15, 4], device=device)
    kv_layer = poisoned(4, layout, device)
    kv_write(k, v, kv_layer, slots, layout)
    plain = torch.zeros(4, 2, 4, 2, 64, device=device)
    reference.write_kv(k, v, plain, slots)
    keys, values = reference_paged.read_kv(kv_layer, torch.arange(4, device=device), layout)[:, slots]
    assert torch.equal(keys, plain[:, 0].flatten(0, 1)[slots])
    assert torch.equal(values, plain[:, 1].flatten(0, 1)[slots])


@pytest.mark.parametrize("kv_format", ["fp8_token", "int8_token"])
def test_what_is_not_finite_is_stored_as_finite(kv_format: KvFormat, device: torch.device) -> None:
    layout = PageLayout(1, 64, 4, torch.float32, kv_format)
    k, v = draw(3, layout, device)
    k[0, 0, 5], k[1, 0, 6], v[2] = torch.nan, torch.inf, 0.0
    slots = torch.tensor([4, 5, 6], device=device)
    written, expected = (torch.zeros(2, layout.page_bytes, dtype=torch.uint8, device=device) for _ in range(2))
    kv_write(k, v, written, slots, layout)
    reference_paged.write_kv(k, v, expected, slots, layout)
    assert torch.equal(written, expected)
    assert reference_paged.read_kv(written, torch.tensor([1], device=device), layout).isfinite().all()


def test_a_token_keeps_three_bits_of_its_values(device: torch.device) -> None:
    layout = PageLayout(2, 64, 4, torch.float32, "fp8_token")
    k, v = draw(4, layout, device)
    kv_layer = poisoned(2, layout, device)
    kv_write(k, v, kv_layer, torch.arange(4, 8, device=device), layout)
    keys, values = reference_paged.read_kv(kv_layer, torch.tensor([1], device=device), layout)
    for read, true in ((keys, k), (values, v)):
        error = (read - true).abs()
        assert (error <= true.abs() * 2**-4 + true.abs().amax(-1, keepdim=True) / 448 * 2**-10 * 1.01).all()


def test_padding_goes_to_the_sink(device: torch.device) -> None:
    layout = PageLayout(1, 64, 4, torch.float32)
    k, v = draw(3, layout, device)
    kv_layer = poisoned(3, layout, device)
    kv_write(k, v, kv_layer, torch.tensor([9, 0, 0], device=device), layout)
    assert (kv_layer[1] == POISON).all()
    keys, _ = reference_paged.read_kv(kv_layer, torch.arange(3, device=device), layout)
    assert torch.equal(keys[9], k[0])


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        pytest.param(PageLayout(2, 64, 4, torch.float32), "must be \\[T, 2, 64\\]", id="heads"),
        pytest.param(PageLayout(1, 64, 4, torch.float32, "fp8_head"), "head_scales belong to", id="scales missing"),
        pytest.param(PageLayout(1, 64, 8, torch.float32), "cannot hold triton-dense-8x1x64-float32", id="longer pages"),
    ],
)
def test_refuses_what_does_not_fit(layout: PageLayout, message: str, device: torch.device) -> None:
    small = PageLayout(1, 64, 4, torch.float32)
    k, v = draw(1, small, device)
    with pytest.raises(ValueError, match=message):
        kv_write(k, v, poisoned(2, small, device), torch.tensor([4], device=device), layout)
