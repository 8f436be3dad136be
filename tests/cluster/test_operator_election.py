"""Two operators of one lease: who works, who takes over, and that nobody writes who may not. Services without pods."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.kubectl import Kubectl, wait_for
from tests.cluster.lonely import lonely_namespace, without_operator
from tests.cluster.operator_process import Operator, operator
from tests.operator.live import KIND, service, versions, wait_for_condition

SERVICES = 6
SETTLED_S = 180.0
# Nothing has to be pulled or inspected: the services are suspended.
WORDS = ("--runtime-image=registry.invalid/octavo-runtime:1", "--no-inspection")
pytestmark = [pytest.mark.usefixtures("own_cluster"), pytest.mark.long]


@pytest.fixture(scope="module")
def alone(cluster: Kubectl, octavo: Kubectl) -> Iterator[Kubectl]:
    """A namespace with some services; the pair of operators of each test is the only one that serves it."""
    with without_operator(octavo), lonely_namespace(cluster) as kubectl:
        kubectl.apply(*(service(f"s{number}", suspend=True) for number in range(SERVICES)))
        yield kubectl


@contextmanager
def pair(kubectl: Kubectl, folder: Path) -> Iterator[tuple[Operator, Operator]]:
    """Two operators of one lease: the one that leads, with nothing left to do, and the one that stands by."""
    words = (f"--namespace={kubectl.namespace}", f"--lease={kubectl.namespace}/operators", *WORDS)
    with operator(kubectl.access, folder / "first.log", *words) as first:
        wait_for(first.leads, 60, "the first operator to lead")
        with operator(kubectl.access, folder / "second.log", *words) as second:
            for number in range(SERVICES):
                wait_for_condition(kubectl, f"s{number}", "Ready", "True", says="Suspended", timeout_s=SETTLED_S)
            wait_for(lambda: second.status("/readyz") == 200, 60, "the second operator to stand by")
            yield first, second


def look(standing_by: Operator) -> float:
    """Seconds until the operator that stood by has become the leader and looked at every service."""
    began_s = time.monotonic()

    def looked() -> bool:
        done = standing_by.sample("octavo_operator_reconciles_total", outcome="done")
        return standing_by.leads() and done is not None and done >= SERVICES

    wait_for(looked, 30, "the second operator to take over", interval_s=0.1)
    return time.monotonic() - began_s


def holder(kubectl: Kubectl) -> str:
    found = kubectl.get("lease", "operators")
    assert found is not None
    return str(found["spec"]["holderIdentity"])


def change(kubectl: Kubectl, name: str, seconds: int) -> None:
    kubectl.patch(KIND, name, {"spec": {"rollout": {"drainTimeoutSeconds": seconds}}})
    wait_for_condition(kubectl, name, "Ready", "True", says="Suspended", timeout_s=20)


def test_one_works_and_the_other_takes_over_when_it_is_killed_without_a_write(alone: Kubectl, tmp_path: Path) -> None:
    with pair(alone, tmp_path) as (leader, standby):
        change(alone, "s0", 11)
        assert (leader.leads(), standby.leads()) == (True, False)
        assert (standby.writes(), leader.status("/readyz")) == (0, 200)
        assert standby.sample("octavo_operator_reconciles_total") == 0
        before = {name: versions(alone, name) for name in ("s0", "s1", "s3")}
        leader.kill()
        assert look(standby) <= 15
        assert standby.writes() == 0, standby.log.read_text()
        assert {name: versions(alone, name) for name in before} == before
        change(alone, "s0", 12)
        assert standby.sample("octavo_operator_writes_total", kind="Deployment") == 1


def test_takes_over_at_once_from_one_that_is_asked_to_end(alone: Kubectl, tmp_path: Path) -> None:
    with pair(alone, tmp_path) as (leader, standby):
        assert leader.end() == 0
        assert holder(alone) == "" or standby.leads()
        assert look(standby) <= 5


def test_one_that_comes_back_after_the_other_took_over_ends_without_a_write(alone: Kubectl, tmp_path: Path) -> None:
    with pair(alone, tmp_path) as (leader, standby):
        leader.pause()
        assert look(standby) <= 15
        change(alone, "s1", 13)
        before = versions(alone, "s1")
        # What it has not seen yet, it would put back to what it knows.
        leader.resume()
        assert leader.process.wait(20) == 1
        assert "this operator ends" in leader.log.read_text()
        assert versions(alone, "s1") == before
        assert standby.leads()


def test_one_that_cannot_have_the_lease_never_works_and_says_why(alone: Kubectl, tmp_path: Path) -> None:
    words = (f"--namespace={alone.namespace}", "--lease=no-such-namespace/operators", *WORDS)
    with operator(alone.access, tmp_path / "log", *words) as lost:
        wait_for(lambda: "the lease no-such-namespace/operators" in lost.log.read_text(), 10, "it to say what it lacks")
        with pytest.raises(subprocess.TimeoutExpired):
            lost.process.wait(3)
        assert (lost.leads(), lost.writes()) == (False, 0)
