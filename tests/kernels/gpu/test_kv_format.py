"""e4m3 by its bits, against torch's own type: every code, every tie between two codes, and what no code stands for."""

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels import reference_paged
from octavo_kernels.gpu.kv_format import decode_e4m3, encode_e4m3

CODES = torch.arange(256, dtype=torch.uint8)
NAN_CODES = (0x7F, 0xFF)


@triton.jit
def decode_kernel(codes: tl.tensor, out: tl.tensor, count: tl.constexpr) -> None:
    index = tl.arange(0, count)
    tl.store(out + index, decode_e4m3(tl.load(codes + index)))


@triton.jit
def encode_kernel(x: tl.tensor, out: tl.tensor, count: tl.constexpr) -> None:
    index = tl.arange(0, count)
    tl.store(out + index, encode_e4m3(tl.load(x + index)))


def encode(x: Tensor, device: torch.device) -> Tensor:
    count = triton.next_power_of_2(len(x))
    padded = torch.zeros(count, device=device)
    padded[: len(x)] = x
    out = torch.full((count,), NAN_CODES[0], dtype=torch.uint8, device=device)
    encode_kernel[(1,)](padded, out, count)
    return out[: len(x)].cpu()


def test_decodes_every_code(device: torch.device) -> None:
    out = torch.full((256,), torch.nan, device=device)
    decode_kernel[(1,)](CODES.to(device), out, 256)
    expected = CODES.view(torch.float8_e4m3fn).float()
    numbers = ~expected.isnan()
    assert numbers.sum() == 254
    assert torch.equal(out.cpu()[numbers], expected[numbers])


def test_encodes_to_the_nearest_and_ties_to_even(device: torch.device) -> None:
    values = CODES[:127].view(torch.float8_e4m3fn).float()
    ties = (values[1:] + values[:-1]) / 2
    around = torch.cat([torch.nextafter(ties, torch.tensor(side)) for side in (-torch.inf, torch.inf)])
    x = torch.cat([values, ties, around, torch.rand(600, generator=torch.Generator().manual_seed(0)) * 0.05])
    x = torch.cat([x, -x])
    expected = x.to(torch.float8_e4m3fn).view(torch.uint8)
    assert torch.equal(encode(x, device), expected)
    assert torch.equal(reference_paged.encode_e4m3(x), expected)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        pytest.param(449.0, 0x7E, id="above the largest"),
        pytest.param(-1e30, 0xFE, id="far below"),
        pytest.param(float("inf"), 0x7E, id="infinity"),
        pytest.param(float("-inf"), 0xFE, id="minus infinity"),
        pytest.param(float("nan"), 0x00, id="NaN"),
        pytest.param(1e-30, 0x00, id="tiny"),
        pytest.param(-0.0, 0x80, id="minus zero"),
    ],
)
def test_saturates_and_stores_no_nan(value: float, code: int, device: torch.device) -> None:
    x = torch.tensor([value])
    assert encode(x, device).tolist() == reference_paged.encode_e4m3(x).tolist() == [code]
