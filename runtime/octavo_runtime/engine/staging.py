"""Host arrays on their way to the device, in one copy a step that nobody waits for.

A ring of pinned buffers, one more than there are steps in flight: the buffer of a step is written again only when the step was
collected. On the device one buffer does, as copies and kernels follow each other on one stream.

Arrays lie in the order in which they are put, so those that come first, and have the same sizes, lie at the same addresses in every
step: that is what a recorded graph reads.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from octavo_runtime.engine.device_stream import DeviceStream

_ALIGNMENT_BYTES = 64  # kernels are compiled apart for addresses that are not multiples of 16


class Staging:
    """`turns` buffers of `capacity_bytes`. What does not fit travels in a buffer of its own, which costs an allocation."""

    def __init__(self, stream: DeviceStream, turns: int, capacity_bytes: int) -> None:
        self._stream = stream
        self._host = [stream.host_buffer(capacity_bytes) for _ in range(turns)]
        self._device = torch.zeros(capacity_bytes, dtype=torch.uint8, device=stream.device)
        self._apart: list[list[Tensor]] = [[] for _ in range(turns)]
        self._turn = 0
        self._used = self._sent = 0

    def begin(self) -> None:
        """Take the next buffer of the ring; the step that used it last must have been collected."""
        self._turn = (self._turn + 1) % len(self._host)
        self._apart[self._turn].clear()
        self._used = self._sent = 0

    def put(self, values: npt.NDArray[Any]) -> Tensor:
        """The array as a tensor on the device, for work that is given to the stream after the next `send`."""
        flat = np.ascontiguousarray(values).reshape(-1)
        begin, end = self._used, self._used + flat.nbytes
        if end > self._host[self._turn].numel():
            return self._send_apart(flat).view(values.shape)
        self._host[self._turn].numpy()[begin:end] = flat.view(np.uint8)
        self._used = -(-end // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        return self._device[begin:end].view(torch.from_numpy(flat[:0]).dtype).view(values.shape)

    def put_ids(self, values: list[int]) -> Tensor:
        return self.put(np.array(values, dtype=np.int64))

    def send(self) -> None:
        """Copy what was put since the last time."""
        part = slice(self._sent, min(self._used, self._device.numel()))
        self._device[part].copy_(self._host[self._turn][part], non_blocking=True)
        self._sent = self._used

    def _send_apart(self, flat: npt.NDArray[Any]) -> Tensor:
        buffer = self._stream.host_buffer(flat.nbytes)
        buffer.numpy()[:] = flat.view(np.uint8)
        self._apart[self._turn].append(buffer)
        return buffer.to(self._stream.device, non_blocking=True).view(torch.from_numpy(flat[:0]).dtype)
