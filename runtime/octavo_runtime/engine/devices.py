"""Which device a rank computes on."""

import torch

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.ranks.placement import Placement


def device_of(config: ServeConfig, placed: Placement, rank: int) -> torch.device:
    """Asking for what cannot be is a ConfigError; `auto` is a GPU where torch sees one. A node's ranks take its GPUs in order."""
    gpu = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    if gpu and config.batch_invariant:
        raise ConfigError(
            "--batch-invariant: not on GPUs, which have no matrix product in fixed tiles yet; use --device cpu or leave it out"
        )
    if not gpu:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ConfigError("--device cuda: torch sees no CUDA device; use --device cpu")
    needed, there = len(placed.ranks_here), torch.cuda.device_count()
    if needed > there:
        raise ConfigError(
            f"--tensor-parallel-size {placed.size}: {needed} GPUs are needed on this node, and torch sees {there}: lower it, "
            "add GPUs or share it among more nodes (--nodes)"
        )
    if placed.size == 1:
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cuda", rank - placed.ranks_here.start)
