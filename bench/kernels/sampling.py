"""Drawing from a vocabulary of 128,256: 128 rows, fp32. The limit is one read of the logits; a limited set takes several passes."""

from functools import partial

import torch
from torch import Tensor

from bench.kernels.kernel_case import KernelCase
from octavo_kernels.gpu.sampling import SamplingRows, sample

_ROWS, _VOCABULARY = 128, 128_256


def cases() -> list[KernelCase]:
    # As spread as a language model's: few tokens hold most of the probability.
    logits = torch.randn(_ROWS, _VOCABULARY, device="cuda") * 3
    return [
        _case("greedy", logits, temperature=0.0),
        _case("all", logits),
        _case("top_k 20", logits, top_k=20),
        _case("top_p 0.95", logits, top_p=0.95),
        _case("top_k 20, top_p 0.95", logits, top_k=20, top_p=0.95),
    ]


def _case(name: str, logits: Tensor, temperature: float = 0.7, top_k: int = 0, top_p: float = 1.0) -> KernelCase:
    def same(value: float, dtype: torch.dtype) -> Tensor:
        return torch.full((_ROWS,), value, dtype=dtype, device="cuda")

    rows = SamplingRows(
        temperature=same(temperature, torch.float64),
        top_k=same(top_k, torch.int32),
        top_p=same(top_p, torch.float64),
        min_p=same(0.0, torch.float64),
        seed=torch.arange(_ROWS, device="cuda"),
        position=torch.arange(_ROWS, device="cuda"),
    )
    out = torch.empty(_ROWS, dtype=torch.int64, device="cuda")
    return KernelCase(f"sample {name}", partial(sample, logits, rows, out), logits.numel() * logits.element_size(), 0)
