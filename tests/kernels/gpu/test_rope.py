"""Rotary embedding in the QKV buffer against the torch reference in fp32."""

import numpy as np
import pytest
import torch

from octavo_kernels import reference
from octavo_kernels.gpu.rope import rope

POSITIONS = 50


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [pytest.param(torch.float32, 1e-6, id="fp32"), pytest.param(torch.float16, 2**-9, id="fp16")],
)
@pytest.mark.parametrize(
    ("tokens", "heads", "kv_heads", "width"),
    [
        pytest.param(1, 1, 1, 2, id="smallest"),
        pytest.param(5, 9, 3, 64, id="SmolLM2's heads: more than a program's"),
        pytest.param(3, 4, 2, 80, id="width not a power of two"),
    ],
)
def test_queries_and_keys_are_turned_and_values_left(
    tokens: int, heads: int, kv_heads: int, width: int, dtype: torch.dtype, tolerance: float, device: torch.device
) -> None:
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(tokens, heads + 2 * kv_heads, width, generator=generator).to(device, dtype)
    angles = torch.randn(POSITIONS, width // 2, generator=generator).to(device) * 3
    cos, sin = angles.cos(), angles.sin()
    pos = torch.randperm(POSITIONS, generator=generator)[:tokens].to(device)
    before, rotated = qkv.clone(), heads + kv_heads
    rope(qkv, cos, sin, pos, rotated)
    expected = reference.rope(before[:, :rotated].float(), cos[pos], sin[pos])
    # A sum of two products that may cancel: the error is relative to the largest value, not to the sum.
    largest = float(before.abs().max())
    turned = qkv[:, :rotated].float().cpu().numpy()
    np.testing.assert_allclose(turned, expected.cpu().numpy(), rtol=0, atol=tolerance * largest)
    assert torch.equal(qkv[:, rotated:], before[:, rotated:])
