"""An operator whose role lacks rights, from the working tree: it says which, and goes on where it can."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.installation import Images
from tests.cluster.kubectl import Kubectl, wait_for
from tests.cluster.limited import limited, role
from tests.cluster.operator_process import operator
from tests.operator.live import applied, service, shared_namespace

POLICIES = "networkpolicies"


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl, octavo: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


def test_goes_on_without_an_optional_kind_that_it_may_not_watch(
    namespace: Kubectl, images: Images, tmp_path: Path
) -> None:
    """Beside the one that serves all other tests, with which it agrees in all."""
    here = f"in namespace {namespace.namespace}"
    lacking = f"lacks list {here} and watch {here} of networkpolicies.networking.k8s.io: grant it"
    arguments = [f"--namespace={namespace.namespace}", f"--runtime-image={images.runtime_demo}", "--discovery=1"]
    arguments += ["--watch-timeout=2"]  # the API server looks at rights when a watch is opened
    with (
        limited(namespace, tmp_path, POLICIES) as kubeconfig,
        operator(namespace.access, tmp_path / "log", *arguments, kubeconfig=kubeconfig) as running,
        applied(namespace, service("quiet", suspend=True)),
    ):

        def said(text: str) -> int:
            return running.log.read_text().count(text)

        def works() -> bool:
            return bool(running.sample("octavo_operator_reconciles_total", outcome="done"))

        wait_for(works, 30, "the service to be reconciled")
        assert said(lacking) == 1
        namespace.apply(role(namespace))
        wait_for(lambda: said("networkpolicies.networking.k8s.io may be watched now"), 20, "the right to be seen")
        namespace.apply(role(namespace, POLICIES))
        wait_for(lambda: said(lacking) == 2, 90, "a right that was taken away to be noticed")
        assert running.status("/healthz") == 200


def test_ends_where_it_may_not_watch_what_it_cannot_do_without(namespace: Kubectl, tmp_path: Path) -> None:
    arguments = [f"--namespace={namespace.namespace}"]
    with (
        limited(namespace, tmp_path, "services") as kubeconfig,
        operator(namespace.access, tmp_path / "log", *arguments, kubeconfig=kubeconfig) as running,
    ):
        assert running.process.wait(60) == 2
        last = running.log.read_text().splitlines()[-1]
        assert "the operator's role lacks list in namespace" in last
        assert "of services: grant it, as the chart does" in last
