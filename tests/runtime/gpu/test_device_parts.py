"""What the device's runner is made of, each alone: staging, batch sizes, rehearsals, offers, memory."""

import numpy as np
import pytest
import torch

from octavo_runtime.engine.cuda_graphs import batch_sizes
from octavo_runtime.engine.device_memory import spare_bytes
from octavo_runtime.engine.rehearsal import rehearsals
from octavo_runtime.engine.staging import Staging
from octavo_runtime.model.device_sampler import likeliest
from tests.runtime.gpu.inline_stream import InlineStream

GIB = 1 << 30


def test_staged_arrays_arrive_with_the_next_send() -> None:
    staging = Staging(InlineStream(), turns=2, capacity_bytes=1024)
    staging.begin()
    first = staging.put(np.array([1, 2, 3], dtype=np.int64))
    strided = staging.put(np.array([[0.5, 9.0], [1.5, 9.0]])[:, 0])
    staging.send()
    second = staging.put(np.array([7], dtype=np.int32))
    assert (first.tolist(), strided.tolist(), second.tolist()) == ([1, 2, 3], [0.5, 1.5], [0])
    staging.send()
    assert second.tolist() == [7]
    assert (first.dtype, strided.dtype, second.dtype) == (torch.int64, torch.float64, torch.int32)


def test_equal_sizes_in_equal_order_lie_at_the_same_aligned_addresses() -> None:
    """Whatever came behind them, and in either buffer of the ring."""
    staging = Staging(InlineStream(), turns=2, capacity_bytes=1024)
    seen = set()
    for turn in range(3):
        staging.begin()
        put = [staging.put(np.full(count, turn, dtype=np.int32)) for count in (3, 5)]
        staging.put(np.zeros(turn, dtype=np.int64))
        staging.send()
        assert [tensor.tolist() for tensor in put] == [[turn] * 3, [turn] * 5]
        seen.add(tuple(tensor.data_ptr() for tensor in put))
    assert len(seen) == 1
    assert all(address % 16 == 0 for address in seen.pop())


def test_a_buffer_of_the_ring_is_left_alone_for_as_many_steps_as_are_in_flight() -> None:
    """A device may copy from it until its step is collected."""
    buffers: list[torch.Tensor] = []

    class Seen(InlineStream):
        def host_buffer(self, size_bytes: int) -> torch.Tensor:
            buffers.append(super().host_buffer(size_bytes))
            return buffers[-1]

    staging = Staging(Seen(), turns=2, capacity_bytes=64)
    for turn in (1, 2):
        staging.begin()
        staging.put(np.full(8, turn, dtype=np.uint8))
        staging.send()
    assert sorted(int(buffer[0]) for buffer in buffers) == [1, 2]


def test_what_does_not_fit_travels_apart() -> None:
    staging = Staging(InlineStream(), turns=2, capacity_bytes=64)
    for turn in range(4):
        staging.begin()
        parts = [staging.put(np.full(count, turn, dtype=np.int64)) for count in (4, 100, 3, 2)]
        staging.send()
        assert [part.tolist() for part in parts] == [[turn] * count for count in (4, 100, 3, 2)]


@pytest.mark.parametrize(
    ("most", "sizes"),
    [(1, (1,)), (3, (1, 2, 4)), (8, (1, 2, 4, 8)), (17, (1, 2, 4, 8, 16, 24)), (32, (1, 2, 4, 8, 16, 24, 32))],
)
def test_batch_sizes_reach_the_most_sequences(most: int, sizes: tuple[int, ...]) -> None:
    assert batch_sizes(most) == sizes


@pytest.mark.parametrize(
    ("sequences", "context", "tokens"), [(64, 4096, 512), (3, 20, 50), (1, 2, 1), (8, 9, 4096)], ids=str
)
def test_rehearsals_keep_within_the_limits_and_reach_the_largest_step(
    sequences: int, context: int, tokens: int
) -> None:
    plans = rehearsals(sequences, context, tokens, weigh=True)
    largest = min(tokens, sequences * (context - 1))
    assert plans[0].tokens == largest
    for plan in plans:
        counts = [run.count for run in plan.run]
        assert len(counts) <= sequences
        assert plan.tokens <= largest
        assert max(counts) < context
        ones = next((i for i, count in enumerate(counts) if count > 1), len(counts))
        assert 1 not in counts[ones:]
    assert [entry.weigh for entry in plans[-1].new] == [True]
    assert not any(entry.weigh for entry in rehearsals(sequences, context, tokens)[-1].new)
    decodes = {len(plan.run) for plan in plans if all(run.count == 1 for run in plan.run)}
    assert {min(size, sequences) for size in batch_sizes(sequences) if size <= tokens} <= decodes


def test_offers_are_the_likeliest_with_equal_ones_by_id() -> None:
    ids, logprobs = likeliest(torch.tensor([[0.0, 2.0, 1.0, 2.0], [5.0, 5.0, 5.0, 5.0]]), 3)
    assert ids.tolist() == [[1, 3, 2], [0, 1, 2]]
    assert logprobs[1].tolist() == pytest.approx([float(np.log(0.25))] * 3)
    assert logprobs.dtype == torch.float64


@pytest.mark.parametrize(
    ("free", "total", "workspace", "percent", "spare"),
    [
        pytest.param(100 * GIB, 141 * GIB, 4 * GIB, 100, 95 * GIB - int(0.02 * 141 * GIB), id="a large GPU"),
        pytest.param(10 * GIB, 16 * GIB, 0, 100, 9 * GIB, id="at least 1 GiB is kept"),
        pytest.param(10 * GIB, 16 * GIB, 0, 98, 9 * GIB, id="beside a percentage that leaves less"),
        pytest.param(60 * GIB, 80 * GIB, 4 * GIB, 90, 47 * GIB, id="72 GiB less 20 of weights and the workspace"),
        pytest.param(60 * GIB, 80 * GIB, 0, 25, 0, id="weights take what may be taken"),
        pytest.param(GIB, 16 * GIB, GIB, 100, 0, id="nothing is left"),
    ],
)
def test_pages_get_what_weights_workspace_and_reserve_leave(
    free: int, total: int, workspace: int, percent: int, spare: int
) -> None:
    assert spare_bytes(free, total, workspace, percent) == spare
