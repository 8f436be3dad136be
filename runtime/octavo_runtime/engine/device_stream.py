"""The one stream that all of a device's work goes through, and what of CUDA the runner needs besides tensors.

Work on a stream happens in the order in which it was given, so a step's inputs, kernels and results need no other fence. Only the
host has to know when the device has come to a mark. It is not the default stream: that one waits for others and cannot be recorded.
"""

import contextlib
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

Replay = Callable[[], Tensor]


class Mark(Protocol):
    """A place in the stream's work."""

    def set(self) -> None:
        """Mark what was given to the stream so far."""
        ...

    def wait(self) -> None:
        """Block until the device has done it."""
        ...


class DeviceStream(Protocol):
    device: torch.device

    def active(self) -> contextlib.AbstractContextManager[None]:
        """Within it, torch and Triton give their work to this stream."""
        ...

    def follow(self) -> None:
        """Whatever the device was given before, on any stream, is done before what this one is given from here on."""
        ...

    def new_mark(self) -> Mark: ...

    def host_buffer(self, size_bytes: int) -> Tensor:
        """`uint8[size_bytes]` on the host, which copies from and to the device do not wait for."""
        ...

    def record(self, work: Callable[[], Tensor]) -> Replay:
        """Run `work` and record what it gives to the device; each replay does the same to the same addresses.

        Tensors that work reads must stay where they are; what it returns is overwritten by the next replay, of any record.
        """
        ...


class CudaStream:
    """A stream of the current CUDA device; its records are CUDA graphs, all in one memory pool."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch declares no types for it
        self._pool = torch.cuda.graph_pool_handle()

    def active(self) -> contextlib.AbstractContextManager[None]:
        return torch.cuda.stream(self._stream)

    def follow(self) -> None:
        torch.cuda.synchronize(self.device)

    def new_mark(self) -> Mark:
        return _CudaMark(self._stream)

    def host_buffer(self, size_bytes: int) -> Tensor:
        return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)

    def record(self, work: Callable[[], Tensor]) -> Replay:
        work()  # compiles kernels and lets libraries make their workspaces: neither is allowed while recording
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            out = work()

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay


class _CudaMark:
    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch declares no types for it

    def set(self) -> None:
        self._event.record(self._stream)

    def wait(self) -> None:
        self._event.synchronize()
