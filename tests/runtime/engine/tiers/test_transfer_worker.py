"""Work in a thread, its results in the caller's."""

import threading
import time
from collections.abc import Callable

import pytest

from octavo_runtime.engine.tiers.transfer_worker import Landing, TransferWorker


def until(worker: TransferWorker, condition: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < give_up_s
        time.sleep(0.001)
        worker.poll()


def test_urgent_work_goes_first_and_results_land_when_they_are_polled() -> None:
    worker, landed = TransferWorker("test"), list[tuple[str, bool]]()
    gate = threading.Event()
    caller = threading.get_ident()

    def work(name: str) -> Callable[[], Landing]:
        def run() -> Landing:
            gate.wait()
            assert threading.get_ident() != caller
            return lambda: landed.append((name, threading.get_ident() == caller))

        return run

    worker.give(work("first"))
    deadline_s = time.monotonic() + 10.0
    while not worker.busy_s:
        assert time.monotonic() < deadline_s
        time.sleep(0.001)
    worker.give(work("later"))
    worker.give(work("urgent"), urgent=True)
    gate.set()
    until(worker, lambda: len(landed) == 3)
    assert landed == [("first", True), ("urgent", True), ("later", True)]
    worker.close()


def test_a_fault_is_raised_where_results_are_polled() -> None:
    worker = TransferWorker("test")

    def fail() -> Landing:
        raise ZeroDivisionError("a fault of ours")

    worker.give(fail)
    with pytest.raises(ZeroDivisionError):
        until(worker, lambda: False)
    worker.close()


def test_closing_does_what_was_given() -> None:
    worker, done = TransferWorker("test"), list[int]()
    for number in range(5):
        worker.give(lambda number=number: lambda: done.append(number))  # type: ignore[misc]  # a default binds it
    worker.close()
    worker.poll()
    assert done == [0, 1, 2, 3, 4]
