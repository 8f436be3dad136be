"""Ranks as threads of one process, with a real gloo group between them."""

from collections.abc import Callable
from concurrent import futures
from typing import TypeVar

from torch._C._distributed_c10d import HashStore

from octavo_runtime.model.collectives import Collectives, gloo_group

T = TypeVar("T")


def on_ranks(size: int, work: Callable[[Collectives], T]) -> list[T]:
    """What `work` gives on each rank; an error of any is raised."""
    store = HashStore()

    def run(rank: int) -> T:
        return work(Collectives(gloo_group(store, rank, size, "127.0.0.1"), rank, size))

    with futures.ThreadPoolExecutor(size) as threads:
        return list(threads.map(run, range(size)))
