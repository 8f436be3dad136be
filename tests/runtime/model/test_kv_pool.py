import pytest
import torch

from octavo_runtime.model.kv_pool import KvPool

CPU = torch.device("cpu")


def numbered_pool() -> KvPool:
    """Each page of each layer filled with a number of its own."""
    pool = KvPool(layers=2, pages=4, page_bytes=6, device=CPU)
    for number, layer in enumerate(pool.layers):
        layer.copy_((torch.arange(5) + 10 * number)[:, None])
    return pool


def test_pages_are_zeroed_bytes_with_one_sink_beside_them() -> None:
    pool = KvPool(layers=3, pages=4, page_bytes=6, device=CPU)
    assert [layer.shape for layer in pool.layers] == [(5, 6)] * 3
    assert all(layer.dtype == torch.uint8 and not layer.any() for layer in pool.layers)
    assert pool.total_bytes == 3 * 5 * 6


@pytest.mark.parametrize(
    ("copies", "after"),
    [
        pytest.param([], [0, 1, 2, 3, 4], id="none"),
        pytest.param([(1, 3)], [0, 1, 2, 1, 4], id="one"),
        pytest.param([(1, 2), (2, 3), (3, 4)], [0, 1, 1, 2, 3], id="a chain reads before it writes"),
    ],
)
def test_copies_whole_pages_in_every_layer(copies: list[tuple[int, int]], after: list[int]) -> None:
    pool = numbered_pool()
    pool.copy(copies)
    for number, layer in enumerate(pool.layers):
        assert torch.equal(layer, (torch.tensor(after, dtype=torch.uint8) + 10 * number)[:, None].expand(5, 6))


def test_pages_can_lie_in_memory_that_was_there_before() -> None:
    given = bytearray(3 * 5 * 6 + 10)
    pool = KvPool(layers=3, pages=4, page_bytes=6, device=CPU, zeros=lambda size_bytes: given)
    for number, layer in enumerate(pool.layers):
        layer.fill_(number + 1)
    assert bytes(given) == bytes([1] * 30 + [2] * 30 + [3] * 30 + [0] * 10)
