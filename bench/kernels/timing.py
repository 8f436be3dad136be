"""Time on the GPU by events, with cold caches, and the two limits that it is compared with."""

import statistics
from collections.abc import Callable

import torch

_WARM_UPS, _REPEATS = 3, 20
_COPIED_BYTES = 2**30
_SQUARE = 8192


def time_s(run: Callable[[], None]) -> float:
    """Median of 20 launches, the L2 overwritten before each.

    The launch is captured into a graph: replaying it costs the host less than the overwriting costs the GPU, so that the GPU never
    waits for the host between the two events.
    """
    for _ in range(_WARM_UPS):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    flush = torch.empty(4 * torch.cuda.get_device_properties().L2_cache_size, dtype=torch.int8, device="cuda")
    pairs = [(_event(), _event()) for _ in range(_REPEATS)]
    for start, end in pairs:
        flush.zero_()
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    times_ms: list[float] = [start.elapsed_time(end) for start, end in pairs]
    return statistics.median(times_ms) / 1e3


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch declares no types for it


def copy_bandwidth() -> float:
    """Bytes a second, read and written both counted, of torch's copy of 1 GiB."""
    source = torch.zeros(_COPIED_BYTES, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)

    def run() -> None:
        target.copy_(source)

    return 2 * _COPIED_BYTES / time_s(run)


def matmul_peak() -> float:
    """Operations a second of the library's product of two square bf16 matrices."""
    a, b = (torch.randn(_SQUARE, _SQUARE, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    out = torch.empty_like(a)

    def run() -> None:
        torch.mm(a, b, out=out)

    return 2 * _SQUARE**3 / time_s(run)
