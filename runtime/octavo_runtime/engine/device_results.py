"""What was drawn, on its way back to the host: one copy a step into pinned memory, and a mark behind it."""

import collections
import dataclasses

import torch
from torch import Tensor

from octavo_runtime.engine.device_draws import Draws
from octavo_runtime.engine.device_stream import DeviceStream, Mark
from octavo_runtime.engine.plan import Drawn


@dataclasses.dataclass(frozen=True, eq=False)
class _Step:
    mark: Mark
    draws: Draws
    ids: Tensor  # int64 [R], on the host
    offers: tuple[Tensor, Tensor] | None  # ids and log-probabilities [O, top], on the host


class Results:
    """Steps in flight, at most `turns`; each draws at most `most` tokens."""

    def __init__(self, stream: DeviceStream, turns: int, most: int) -> None:
        self._stream = stream
        buffers = [stream.host_buffer(most * torch.int64.itemsize).view(torch.int64) for _ in range(turns)]
        self._free = collections.deque((stream.new_mark(), buffer) for buffer in buffers)
        self._steps: collections.deque[tuple[_Step, Tensor]] = collections.deque()

    def send(self, draws: Draws, ids: Tensor, offers: tuple[Tensor, Tensor] | None) -> None:
        """Begin the copy of what the stream draws for this step."""
        told = None if offers is None else (self._copied(offers[0]), self._copied(offers[1]))
        mark, buffer = self._free.popleft()  # after what may find no memory
        buffer[: len(ids)].copy_(ids, non_blocking=True)
        mark.set()
        self._steps.append((_Step(mark, draws, buffer[: len(ids)], told), buffer))

    def collect(self) -> list[Drawn]:
        """Wait for the oldest step; its draws in the order of its plan."""
        step, buffer = self._steps.popleft()
        step.mark.wait()
        ids = step.ids.tolist()
        drawn = [
            Drawn(told.slot, ids[told.first : told.first + told.count])
            if not told.top
            else _offer(told.slot, told.first, told.top, step.offers)
            for told in step.draws.told
        ]
        self._free.append((step.mark, buffer))
        return drawn

    def _copied(self, values: Tensor) -> Tensor:
        """Beams are rare, and their offers of any size: a buffer for each step."""
        buffer = self._stream.host_buffer(values.numel() * values.itemsize).view(values.dtype).view(values.shape)
        return buffer.copy_(values, non_blocking=True)


def _offer(slot: int, row: int, top: int, offers: tuple[Tensor, Tensor] | None) -> Drawn:
    assert offers is not None
    ids, logprobs = offers
    return Drawn(slot, ids[row, :top].tolist(), logprobs[row, :top].tolist())
