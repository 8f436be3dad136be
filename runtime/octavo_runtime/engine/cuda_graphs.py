"""Decode steps as recorded graphs: one for each of a few batch sizes, a step runs in the smallest that holds it.

Launching some 400 kernels a step costs the host more than a small batch costs the device; a replay is one launch. A graph keeps
addresses, shapes and grids, so its inputs lie in staging where they lay when it was recorded, and the rows that a batch lacks are
sequences of one token in the sink page. Steps that compute prompts are not recorded: their shapes hardly repeat.
"""

from collections.abc import Callable

from torch import Tensor

from octavo_runtime.engine.device_stream import DeviceStream, Replay


def batch_sizes(max_num_seqs: int) -> tuple[int, ...]:
    """1, 2, 4, then every eighth, the last at least `max_num_seqs`: at most 7 rows are computed in vain."""
    sizes = [1, 2, 4, *range(8, max_num_seqs + 8, 8)]
    return tuple(sizes[: next(i for i, size in enumerate(sizes) if size >= max_num_seqs) + 1])


class DecodeGraphs:
    """The recorded graphs by batch size."""

    def __init__(self, max_num_seqs: int) -> None:
        self.sizes = batch_sizes(max_num_seqs)
        self._replays: dict[int, tuple[int, Replay]] = {}

    def size_for(self, batch: int) -> int:
        """How many rows a decode step of `batch` sequences is filled up to."""
        return next(size for size in self.sizes if size >= batch)

    def record(self, stream: DeviceStream, size: int, address: int, work: Callable[[], Tensor]) -> None:
        """`address`: where the inputs begin that work reads."""
        self._replays[size] = (address, stream.record(work))

    def replay(self, size: int, address: int) -> Tensor | None:
        """Run the graph of this size, None if it was not recorded."""
        if size not in self._replays:
            return None
        recorded, replay = self._replays[size]
        assert recorded == address
        return replay()
