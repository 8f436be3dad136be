"""Rotary position tables, with Llama 3's frequency scaling."""

import dataclasses
import math
from typing import Self

import torch
from torch import Tensor

from octavo_runtime.model.config import ModelConfig, RopeScaling


@dataclasses.dataclass(frozen=True, eq=False)
class Rotary:
    """cos and sin of every position, each fp32 `[positions, head_dim / 2]`."""

    cos: Tensor
    sin: Tensor

    @classmethod
    def build(cls, config: ModelConfig, positions: int, device: torch.device) -> Self:
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device=device) / config.head_dim
        frequencies = 1.0 / config.rope_theta**exponents
        if config.rope_scaling is not None:
            frequencies = _scale(frequencies, config.rope_scaling)
        angles = torch.outer(torch.arange(positions, dtype=torch.float32, device=device), frequencies)
        return cls(angles.cos(), angles.sin())


def _scale(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """Llama 3: long wavelengths are slowed by `factor`, short ones kept, those between blended.

    Source: https://github.com/meta-llama/llama-models (`apply_scaling`).
    """
    wavelengths = 2 * math.pi / frequencies
    turns = scaling.original_max_position / wavelengths
    keep = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    keep = keep.clamp(0.0, 1.0)
    return keep * frequencies + (1 - keep) * frequencies / scaling.factor
