"""e4m3 by its bits, against torch's own type: every code, every tie between two codes, and what no code stands for; and int8."""

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels import reference_paged
from octavo_kernels.gpu.kv_format import decode_e4m3, decode_int8, encode_e4m3, encode_int8

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


@triton.jit
def int8_kernel(x: tl.tensor, codes: tl.tensor, out: tl.tensor, count: tl.constexpr) -> None:
    index = tl.arange(0, count)
    code = encode_int8(tl.load(x + index))
    tl.store(codes + index, code)
    tl.store(out + index, decode_int8(code))


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


def test_int8_is_the_nearest_integer_and_ties_are_even(device: torch.device) -> None:
    beyond = torch.tensor([torch.nan, torch.inf, -torch.inf, 127.5, -300.0])
    x = torch.cat([torch.arange(-128, 128) / 2, torch.linspace(-127, 127, 251), beyond])
    codes, out = torch.zeros(512, dtype=torch.uint8, device=device), torch.full((512,), torch.nan, device=device)
    int8_kernel[(1,)](x.to(device), codes, out, 512)
    expected = x.nan_to_num(nan=0.0).clamp(-127, 127).round()
    assert torch.equal(out.cpu(), expected)
    assert torch.equal(reference_paged.encode_int8(x), codes.cpu())
    assert torch.equal(reference_paged.decode_int8(codes.cpu()), expected)
