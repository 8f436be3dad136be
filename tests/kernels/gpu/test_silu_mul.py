"""SiLU · up against the torch reference in fp32."""

import pytest
import torch

from octavo_kernels import reference
from octavo_kernels.gpu.silu_mul import silu_mul
from tests.kernels.gpu.paged import check_close


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [pytest.param(torch.float32, 2e-6, id="fp32"), pytest.param(torch.float16, 2**-9, id="fp16")],
)
@pytest.mark.parametrize(("tokens", "width"), [(1, 1), (3, 7), (2, 1536), (2, 1025)])
def test_silu_of_the_gate_times_up(
    tokens: int, width: int, dtype: torch.dtype, tolerance: float, device: torch.device
) -> None:
    x = (torch.randn(tokens, 2 * width, generator=torch.Generator().manual_seed(0)) * 4).to(device, dtype)
    out = torch.full((tokens, width), torch.nan, dtype=dtype, device=device)
    silu_mul(x, out)
    check_close(out, reference.silu_mul(x.float()), tolerance)
