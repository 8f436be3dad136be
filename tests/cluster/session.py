"""One use of the cluster by a test session or the demo: up where it is ours, one user at a time, down again if we started it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.access import Access
from tests.cluster.onenode import lifecycle, machine

LOCK = Path("/run/octavo-onenode-session.lock")


@contextmanager
def session(access: Access) -> Iterator[None]:
    """Yields with the cluster up; raises `CannotRunHereError` where none is named and none can be started."""
    if access.is_foreign:
        yield
        return
    machine.check_supported()
    with _alone():
        started = lifecycle.up()
        try:
            yield
        finally:
            if started:
                lifecycle.down()


@contextmanager
def _alone() -> Iterator[None]:
    """Two sessions would install two operators into one cluster: the second waits, and says so."""
    with LOCK.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another test session or demo on this machine's one-node cluster to end", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
