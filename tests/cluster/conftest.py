"""Fixtures of the cluster tier: a real Kubernetes, Octavo installed in it, a namespace for each test, evidence of failures.

Where no cluster is named and none can run here, the tier is skipped with the reason.
"""

import os
import uuid
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cluster import evidence, installation, local_operator
from tests.cluster.access import Access, resolve
from tests.cluster.installation import Images
from tests.cluster.kubectl import Kubectl
from tests.cluster.onenode.errors import CannotRunHereError
from tests.cluster.session import session

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker("cluster")


@pytest.fixture(scope="session")
def access(pytestconfig: pytest.Config) -> Iterator[Access]:
    """The cluster, up; ours is taken down at the end if this session started it."""
    found = resolve(os.environ)
    if local_operator.namespace() is not None:
        yield found
        return
    with ExitStack() as stack:
        with _speaking(pytestconfig):
            try:
                stack.enter_context(session(found))
            except CannotRunHereError as error:
                pytest.skip(str(error))
        yield found
        with _speaking(pytestconfig):
            stack.close()


@pytest.fixture(scope="session")
def cluster(access: Access) -> Kubectl:
    """kubectl for the cluster, bound to no namespace."""
    kubectl = Kubectl(access)
    if not access.is_foreign and local_operator.namespace() is None:
        installation.clear_leftovers(kubectl)
    return kubectl


@pytest.fixture(scope="session")
def images(access: Access, pytestconfig: pytest.Config) -> Images:
    """Our images for this tree, in the registry; with a local operator, whatever OCTAVO_TEST_IMAGE names."""
    if local_operator.namespace() is not None:
        return Images(
            operator="", runtime=os.environ["OCTAVO_TEST_IMAGE"], runtime_demo=os.environ["OCTAVO_TEST_IMAGE"]
        )
    with _speaking(pytestconfig):
        return installation.ensure_images(access)


@pytest.fixture(scope="session")
def octavo(cluster: Kubectl, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """The chart, installed once a session; yields kubectl bound to the operator's namespace."""
    if (local := local_operator.namespace()) is not None:
        log = tmp_path_factory.mktemp("operator") / "log"
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": local}})
        with local_operator.running(cluster.access, local, images.runtime_demo, log):
            yield cluster.within(local)
        return
    if cluster.access.is_foreign:
        installation.check_foreign(cluster)
    installation.install(cluster, images)
    yield cluster.within(cluster.access.operator_namespace)
    installation.uninstall(cluster)


@pytest.fixture(scope="session")
def own_cluster(access: Access) -> None:
    """For tests that patch nodes, break things or need declared capacity: never on a cluster that is not ours."""
    if access.is_foreign:
        pytest.skip(
            "patches nodes or breaks things: only on the one-node cluster, never on the one OCTAVO_CONTEXT names"
        )


@pytest.fixture
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    """kubectl bound to a fresh namespace, which goes after the test with all that is in it.

    Where the operator watches only one (on a foreign cluster its own), it is that one, and the test's services are deleted.
    """
    watched = installation.watched_namespace(cluster.access)
    name = watched or f"octavo-test-{uuid.uuid4().hex[:8]}"
    installation.ensure_namespace(cluster, name)
    yield cluster.within(name)
    if watched:
        cluster.within(name).run("delete", installation.CRD, "--all", timeout_s=120.0)
    else:
        cluster.delete("namespace", name, timeout_s=120.0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    kubectl = _fixture(item, "cluster")
    if report.failed and kubectl is not None:
        own = _fixture(item, "namespace")
        names = dict.fromkeys([kubectl.access.operator_namespace, *([own.namespace] if own and own.namespace else [])])
        folder = evidence.keep(kubectl, item.name, names)
        report.sections.append(("evidence", f"pod logs, events, component logs: {folder}"))
    return report


def _fixture(item: pytest.Item, name: str) -> Kubectl | None:
    found = getattr(item, "funcargs", {}).get(name)
    return found if isinstance(found, Kubectl) else None


@contextmanager
def _speaking(config: pytest.Config) -> Iterator[None]:
    """Lets through what takes minutes and says how far it is, past pytest's capture."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield
        return
    with capture.global_and_fixture_disabled():
        print(flush=True)
        yield
