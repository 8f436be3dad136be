"""A checkpoint whose tensors come on a device, one after another: the host never holds more than the one that it reads."""

from pathlib import Path

import torch

from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.sharding import Cut
from octavo_runtime.model.weights import Checkpoint


class DeviceCheckpoint:
    """A `Checkpoint`."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        self.path: Path = checkpoint.path
        self.config: ModelConfig = checkpoint.config
        self._checkpoint = checkpoint
        self._device = device

    def names(self) -> set[str]:
        return self._checkpoint.names()

    def read(self, name: str, dtype: torch.dtype, part: Cut | None = None) -> torch.Tensor:
        return self._checkpoint.read(name, dtype, part).to(self._device)

    def fingerprint(self) -> bytes:
        return self._checkpoint.fingerprint()
