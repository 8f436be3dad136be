"""What a decoder computes with on a GPU: products by the vendor's library, norms and SiLU·mul by Triton kernels."""

import torch
from torch import Tensor

from octavo_kernels.gpu.rms_norm import rms_norm
from octavo_kernels.gpu.silu_mul import silu_mul
from octavo_runtime.model.linear import Linear
from octavo_runtime.model.torch_compute import TorchCompute


class TritonLinear(Linear):
    """`Linear` with its epilogue as a kernel."""

    def _silu_mul(self, x: Tensor) -> Tensor:
        out = torch.empty(x.shape[0], x.shape[1] // 2, dtype=x.dtype, device=x.device)
        silu_mul(x, out)
        return out


class TritonCompute(TorchCompute):
    name = "triton"

    def __init__(self) -> None:
        super().__init__(TritonLinear)

    def add_rms_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        out = torch.empty_like(residual)
        rms_norm(residual, weight, eps, out, delta)
        return out

    def padded_rows(self, rows: int) -> int:
        """As many: libraries of GPUs take any number, and keep nothing for each."""
        return rows
