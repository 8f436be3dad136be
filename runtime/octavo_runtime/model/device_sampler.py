"""Drawing on a device, without the host: the same draws as `model/sampler.py` from the same rows."""

import dataclasses
from typing import Protocol

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class DeviceRows:
    """How each of R tokens is drawn, see `messages.Sampling`; temperature 0 is greedy."""

    temperature: Tensor  # fp64 [R]
    top_k: Tensor  # int32 [R]
    top_p: Tensor  # fp64 [R]
    min_p: Tensor  # fp64 [R]
    seed: Tensor  # int64 [R], the bits of 0 … 2⁶⁴ − 1
    position: Tensor  # int64 [R], tokens before the drawn one


class DeviceSampler(Protocol):
    def __call__(self, logits: Tensor, rows: DeviceRows) -> Tensor:
        """fp32 logits `[R, V]`, −inf where a token may not be drawn → ids int64 `[R]`."""
        ...


def likeliest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """fp32 logits `[O, V]` → the `count` likeliest ids `[O, count]`, best first, equal ones by id, and their log-probabilities
    (fp64, of the whole vocabulary)."""
    ids = torch.sort(logits, dim=-1, descending=True, stable=True).indices[:, :count]
    wide = logits.double()
    return ids, wide.gather(1, ids) - torch.logsumexp(wide, dim=-1, keepdim=True)
