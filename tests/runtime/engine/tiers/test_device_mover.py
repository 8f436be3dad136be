"""The mover of a device, on a stream without one: what it copies, and when it refuses."""

import torch

from octavo_runtime.engine.tiers.device_mover import DeviceMover
from octavo_runtime.model.kv_pool import KvPool
from tests.runtime.gpu.inline_stream import InlineStream


def new_pool() -> KvPool:
    pool = KvPool(2, 30, 16, torch.device("cpu"))
    for number, layer in enumerate(pool.layers):
        layer[:] = torch.arange(31)[:, None] + 100 * number
    return pool


def test_pages_go_to_rows_and_back() -> None:
    pool = new_pool()
    mover = DeviceMover(pool, InlineStream(), InlineStream())
    rows = mover.rows(3)
    assert rows.shape == (3, 32)
    arrive = mover.gather([4, 7], [rows[2], rows[0]])
    assert arrive is not None
    for layer in pool.layers:
        layer[4] = 0  # reused before it has arrived
    arrive()
    arrive()
    assert rows[2].tolist() == [4] * 16 + [104] * 16
    assert rows[0].tolist() == [7] * 16 + [107] * 16
    mover.scatter(rows[2], 9)
    assert [layer[9].tolist() for layer in pool.layers] == [[4] * 16, [104] * 16]


def test_too_many_at_once_are_refused_until_some_have_arrived() -> None:
    mover = DeviceMover(new_pool(), InlineStream(), InlineStream())
    rows = mover.rows(3)
    first = mover.gather([1], [rows[0]])
    assert first is not None
    assert mover.gather([2], [rows[1]]) is not None
    assert mover.gather([3], [rows[2]]) is None
    first()
    assert mover.gather([3], [rows[2]]) is not None
