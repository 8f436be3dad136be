"""What an operator lives through: an API server that restarts and forgot what was watched, watches that fall silent, writers that
are always faster, a namespace that goes. Services without pods.
"""

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.kubectl import CommandError, Kubectl, wait_for
from tests.cluster.lonely import lonely_namespace, without_operator
from tests.cluster.onenode import control_plane, lifecycle
from tests.cluster.operator_process import Operator, operator
from tests.cluster.silent_proxy import proxied
from tests.operator.live import KIND, applied, service, wait_for_condition

# Nothing has to be pulled or inspected: the services are suspended.
WORDS = ("--runtime-image=registry.invalid/octavo-runtime:1", "--no-inspection")
pytestmark = pytest.mark.usefixtures("own_cluster")


@pytest.fixture(scope="module")
def alone(cluster: Kubectl, octavo: Kubectl) -> Iterator[Kubectl]:
    """A namespace that only `survivor` serves."""
    with without_operator(octavo), lonely_namespace(cluster) as kubectl:
        yield kubectl


@pytest.fixture(scope="module")
def doomed(cluster: Kubectl) -> Iterator[Kubectl]:
    """Another one, which a test deletes."""
    with lonely_namespace(cluster) as kubectl:
        yield kubectl


@pytest.fixture(scope="module")
def survivor(alone: Kubectl, doomed: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator of both namespaces: one process, which lives through one test after the other."""
    words = (f"--namespace={alone.namespace}", f"--namespace={doomed.namespace}", *WORDS)
    with operator(alone.access, tmp_path_factory.mktemp("survivor") / "log", *words) as process:
        yield process
        assert process.process.poll() is None, process.log.read_text()


@contextmanager
def reconciled(kubectl: Kubectl, name: str) -> Iterator[str]:
    """The name of a service that has been reconciled. Each test has its own, since it counts how often a child is put back."""
    with applied(kubectl, service(name, suspend=True)):
        wait_for_condition(kubectl, name, "Ready", "True", says="Suspended")
        yield name


def puts_back(kubectl: Kubectl, name: str, timeout_s: float) -> None:
    """Deletes a child and changes the spec; returns once both have been dealt with. Twice in a minute it would be a contest."""
    found = kubectl.get("service", name)
    assert found is not None
    kubectl.delete("service", name, wait=False)

    def made_again() -> bool:
        again = kubectl.get("service", name)
        return again is not None and again["metadata"]["uid"] != found["metadata"]["uid"]

    wait_for(made_again, timeout_s, "the Service to be made again")
    follows(kubectl, name, timeout_s)


def follows(kubectl: Kubectl, name: str, timeout_s: float) -> None:
    """Changes the spec; returns once that has been dealt with."""
    replicas = 1 + int((kubectl.get(KIND, name) or {})["spec"].get("replicas", 1))
    kubectl.patch(KIND, name, {"spec": {"replicas": replicas}})
    wait_for_condition(kubectl, name, "Ready", "True", says="Suspended", timeout_s=timeout_s)


def compact() -> None:
    """Makes etcd forget every version but the newest."""

    def asked(path: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
        request = urllib.request.Request(f"{control_plane.ETCD_URL}/v3/kv/{path}", json.dumps(body).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10.0) as response:
            found: dict[str, dict[str, str]] = json.load(response)
            return found

    newest = asked("range", {"key": "AA=="})["header"]["revision"]
    asked("compaction", {"revision": newest, "physical": True})


def failures(process: Operator) -> float:
    return process.sample("octavo_operator_reconciles_total", outcome="failed") or 0.0


def test_goes_on_where_the_api_server_restarts_and_has_forgotten_what_was_watched(
    alone: Kubectl, survivor: Operator
) -> None:
    with reconciled(alone, "forgotten") as name:
        # It sees nothing of what happens now, and the versions from which it would go on are gone: 410.
        survivor.pause()
        alone.delete("deployment", name, wait=False)
        compact()
        control_plane.restart_api_server(lifecycle.PROCESSES)
        survivor.resume()
        wait_for(lambda: alone.get("deployment", name), 40, "what went meanwhile to be made again")
        follows(alone, name, 30)
        # And once more while it looks.
        control_plane.restart_api_server(lifecycle.PROCESSES)
        puts_back(alone, name, 40)
        wait_for(lambda: survivor.status("/readyz") == 200, 20, "the operator to be ready")


def test_comes_through_where_another_writes_all_the_time(alone: Kubectl, survivor: Operator) -> None:
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            alone.run("annotate", KIND, "raced", f"octavo.test/number={number}", "--overwrite")

    writes, failed = survivor.writes(), failures(survivor)
    with reconciled(alone, "raced") as name:
        writers = [threading.Thread(target=write) for _ in range(2)]
        for writer in writers:
            writer.start()
        try:
            puts_back(alone, name, 30)
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        assert survivor.writes() - writes <= 20, "the children, the Service again, and status a few times"
        assert failures(survivor) == failed


def test_lets_a_namespace_go_with_all_its_services(
    cluster: Kubectl, alone: Kubectl, doomed: Kubectl, survivor: Operator
) -> None:
    failed = failures(survivor)
    names = [f"s{number}" for number in range(3)]
    doomed.apply(*(service(name, suspend=True) for name in names))
    for name in names:
        wait_for_condition(doomed, name, "Ready", "True", says="Suspended")
    assert doomed.namespace is not None
    cluster.delete("namespace", doomed.namespace, timeout_s=60.0)
    with pytest.raises(CommandError, match="not found"):
        cluster.run("get", "namespace", doomed.namespace)
    with reconciled(alone, "other"):
        assert failures(survivor) == failed
    wait_for(lambda: survivor.sample("octavo_operator_queue_depth") == 0, 10, "nothing to be left to do")


def test_notices_watches_that_fall_silent_and_says_so_where_nothing_answers(
    cluster: Kubectl, alone: Kubectl, tmp_path: Path
) -> None:
    with lonely_namespace(cluster) as kubectl, proxied(cluster.access, tmp_path) as (proxy, kubeconfig):
        words = (f"--namespace={kubectl.namespace}", "--watch-timeout=2", *WORDS)
        with (
            operator(cluster.access, tmp_path / "log", *words, kubeconfig=kubeconfig) as process,
            reconciled(kubectl, "unheard") as name,
        ):
            proxy.hush()
            puts_back(kubectl, name, 40)
            assert process.status("/readyz") == 200
            proxy.deafen()
            wait_for(lambda: process.status("/readyz") == 503, 25, "the operator to be unready")
            proxy.listen()
            wait_for(lambda: process.status("/readyz") == 200, 30, "the operator to be ready again")
            follows(kubectl, name, 40)
