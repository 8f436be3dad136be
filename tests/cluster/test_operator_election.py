"""Two operators of one lease: who works, who takes over, and that nobody writes who may not. Services without pods."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
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
pytestmark = pytest.mark.usefixtures("own_cluster")


@pytest.fixture(scope="module")
def alone(cluster: Kubectl, octavo: Kubectl) -> Iterator[Kubectl]:
    """A namespace with some services, served by the operators of this module only."""
    with without_operator(octavo), lonely_namespace(cluster) as kubectl:
        kubectl.apply(*(service(f"s{number}", suspend=True) for number in range(SERVICES)))
        yield kubectl


class Relay:
    """Operators of one lease, each started where a test needs one more: who leads at the end of a test goes on leading."""

    def __init__(self, kubectl: Kubectl, folder: Path, stack: ExitStack) -> None:
        self._kubectl = kubectl
        self._folder = folder
        self._stack = stack
        self._started: list[Operator] = []

    def pair(self) -> tuple[Operator, Operator]:
        """The one that leads, with nothing left to do, and one that stands by and has not worked yet."""
        alive = [process for process in self._started if process.process.poll() is None]
        leader = next((process for process in alive if process.leads()), None) or self._start()
        wait_for(leader.leads, 60, "the first operator to lead")
        standby = self._start()
        for number in range(SERVICES):
            wait_for_condition(self._kubectl, f"s{number}", "Ready", "True", says="Suspended", timeout_s=SETTLED_S)
        wait_for(lambda: standby.status("/readyz") == 200, 60, "the second operator to stand by")
        return leader, standby

    def _start(self) -> Operator:
        log = self._folder / f"{len(self._started)}.log"
        words = (f"--namespace={self._kubectl.namespace}", f"--lease={self._kubectl.namespace}/operators", *WORDS)
        self._started.append(self._stack.enter_context(operator(self._kubectl.access, log, *words)))
        return self._started[-1]


@pytest.fixture(scope="module")
def relay(alone: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    with ExitStack() as stack:
        yield Relay(alone, tmp_path_factory.mktemp("relay"), stack)


def wait_until_it_works(standby: Operator) -> None:
    """The operator that stood by leads, and has looked at every service."""

    def looked() -> bool:
        done = standby.sample("octavo_operator_reconciles_total", outcome="done")
        return standby.leads() and done is not None and done >= SERVICES

    wait_for(looked, 30, "the second operator to take over")


def holder(kubectl: Kubectl) -> str:
    found = kubectl.get("lease", "operators")
    assert found is not None
    return str(found["spec"]["holderIdentity"])


def change(kubectl: Kubectl, name: str, seconds: int) -> None:
    kubectl.patch(KIND, name, {"spec": {"rollout": {"drainTimeoutSeconds": seconds}}})
    wait_for_condition(kubectl, name, "Ready", "True", says="Suspended", timeout_s=20)


def test_one_works_and_the_other_takes_over_when_it_is_killed_without_a_write(alone: Kubectl, relay: Relay) -> None:
    leader, standby = relay.pair()
    change(alone, "s0", 11)
    assert (leader.leads(), standby.leads()) == (True, False)
    assert (standby.writes(), leader.status("/readyz")) == (0, 200)
    assert standby.sample("octavo_operator_reconciles_total") == 0
    before = {name: versions(alone, name) for name in ("s0", "s1", "s3")}
    leader.kill()
    wait_until_it_works(standby)
    assert standby.writes() == 0, standby.log.read_text()
    assert {name: versions(alone, name) for name in before} == before
    change(alone, "s0", 12)
    assert standby.sample("octavo_operator_writes_total", kind="Deployment") == 1


def test_takes_over_at_once_from_one_that_is_asked_to_end(alone: Kubectl, relay: Relay) -> None:
    leader, standby = relay.pair()
    assert leader.end() == 0
    assert holder(alone) == "" or standby.leads(), "nobody waits for the lease to run out"
    wait_until_it_works(standby)


def test_one_that_comes_back_after_the_other_took_over_ends_without_a_write(alone: Kubectl, relay: Relay) -> None:
    leader, standby = relay.pair()
    leader.pause()
    wait_until_it_works(standby)
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
