"""The sampler of GPUs: one Triton program draws a row."""

import torch
from torch import Tensor

from octavo_kernels.gpu import sampling
from octavo_runtime.model.device_sampler import DeviceRows


def triton_sample(logits: Tensor, rows: DeviceRows) -> Tensor:
    """A `DeviceSampler`."""
    out = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    parameters = sampling.SamplingRows(
        temperature=rows.temperature,
        top_k=rows.top_k,
        top_p=rows.top_p,
        min_p=rows.min_p,
        seed=rows.seed,
        position=rows.position,
    )
    sampling.sample(logits, parameters, out)
    return out
