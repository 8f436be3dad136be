"""A checkpoint as one of several ranks sees it: its own sizes, and of each tensor only the part that it holds."""

from pathlib import Path

import torch

from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.sharding import Cut, Shard, cut, local_config
from octavo_runtime.model.weights import Checkpoint


class ShardedCheckpoint:
    """A `Checkpoint`. Only the slices of its own are read of the mapped files."""

    def __init__(self, checkpoint: Checkpoint, shard: Shard) -> None:
        self.path: Path = checkpoint.path
        self.config: ModelConfig = local_config(checkpoint.config, shard)
        self._checkpoint = checkpoint
        self.shard = shard

    def names(self) -> set[str]:
        return self._checkpoint.names()

    def read(self, name: str, dtype: torch.dtype, part: Cut | None = None) -> torch.Tensor:
        assert part is None  # no part of a part
        return self._checkpoint.read(name, dtype, cut(self._checkpoint.config, self.shard, name))

    def fingerprint(self) -> bytes:
        """The whole model's."""
        return self._checkpoint.fingerprint()
