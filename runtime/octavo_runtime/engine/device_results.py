"""What was drawn, on its way back to the host: one copy a step into pinned memory, and a mark behind it."""

import collections
import dataclasses

import torch
from torch import Tensor

from octavo_runtime.engine.device_draws import Draws
from octavo_runtime.engine.device_stream import DeviceStream, Mark
from octavo_runtime.engine.plan import Drawn, StepResult


@dataclasses.dataclass(frozen=True, eq=False)
class Weighed:
    """The attention that pages got: of each slot its first `pages` columns in its row of mass."""

    slots: list[tuple[int, int]]  # (slot, pages)
    mass: Tensor  # fp32 [K, P]


@dataclasses.dataclass(frozen=True, eq=False)
class _Step:
    mark: Mark
    draws: Draws
    ids: Tensor  # int64 [R], on the host
    offers: tuple[Tensor, Tensor] | None  # ids and log-probabilities [O, top], on the host
    weighed: Weighed | None  # on the host


class Results:
    """Steps in flight, at most `turns`; each draws at most `most` tokens."""

    def __init__(self, stream: DeviceStream, turns: int, most: int) -> None:
        self._stream = stream
        buffers = [stream.host_buffer(most * torch.int64.itemsize).view(torch.int64) for _ in range(turns)]
        self._free = collections.deque((stream.new_mark(), buffer) for buffer in buffers)
        self._steps: collections.deque[tuple[_Step, Tensor]] = collections.deque()

    def send(
        self, draws: Draws, ids: Tensor, offers: tuple[Tensor, Tensor] | None, weighed: Weighed | None = None
    ) -> None:
        """Begin the copy of what the stream draws for this step."""
        told = None if offers is None else (self._copied(offers[0]), self._copied(offers[1]))
        on_host = None if weighed is None else Weighed(weighed.slots, self._copied(weighed.mass))
        mark, buffer = self._free.popleft()  # after what may find no memory
        buffer[: len(ids)].copy_(ids, non_blocking=True)
        mark.set()
        self._steps.append((_Step(mark, draws, buffer[: len(ids)], told, on_host), buffer))

    def collect(self, number: int) -> StepResult:
        """Wait for the oldest step, which is `number`; its draws in the order of its plan."""
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
        return StepResult(number, drawn, _masses(step.weighed))

    def _copied(self, values: Tensor) -> Tensor:
        """Beams and budgets are rare, and what is told of them is of any size: a buffer for each step."""
        buffer = self._stream.host_buffer(values.numel() * values.itemsize).view(values.dtype).view(values.shape)
        return buffer.copy_(values, non_blocking=True)


def _masses(weighed: Weighed | None) -> list[tuple[int, list[float]]]:
    if weighed is None:
        return []
    return [(slot, mass[:pages]) for (slot, pages), mass in zip(weighed.slots, weighed.mass.tolist(), strict=True)]


def _offer(slot: int, row: int, top: int, offers: tuple[Tensor, Tensor] | None) -> Drawn:
    assert offers is not None
    ids, logprobs = offers
    return Drawn(slot, ids[row, :top].tolist(), logprobs[row, :top].tolist())
