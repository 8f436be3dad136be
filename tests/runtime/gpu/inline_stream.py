"""A `DeviceStream` without a device: work is done when it is given, and a record runs its work again at each replay."""

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor

from octavo_runtime.engine.device_stream import Mark, Replay


class InlineStream:
    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.replays = 0

    def active(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def follow(self) -> None:
        pass

    def new_mark(self) -> Mark:
        return _Past()

    def host_buffer(self, size_bytes: int) -> Tensor:
        return torch.empty(size_bytes, dtype=torch.uint8).fill_(0xA5)

    def record(self, work: Callable[[], Tensor]) -> Replay:
        work()

        def replay() -> Tensor:
            self.replays += 1
            return work()

        return replay


class _Past:
    def set(self) -> None:
        pass

    def wait(self) -> None:
        pass
