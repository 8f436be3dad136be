"""A namespace that no operator serves but those that a test starts itself."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.installation import RELEASE, ensure_namespace
from tests.cluster.kubectl import Kubectl, wait_for

OPERATORS = "app.kubernetes.io/name=octavo-operator"


@contextmanager
def without_operator(octavo: Kubectl) -> Iterator[None]:
    """The chart's operator is away while the block runs."""
    name = f"{RELEASE}-operator"
    found = octavo.get("deployment", name)
    if found is None:  # it is a process of this machine, which serves one namespace of its own
        yield
        return
    try:
        octavo.run("scale", f"deployment/{name}", "--replicas=0")
        wait_for(lambda: not octavo.list("pods", OPERATORS), 60, "the chart's operators to be gone")
        yield
    finally:
        octavo.run("scale", f"deployment/{name}", f"--replicas={found['spec']['replicas']}")
        octavo.run("rollout", "status", f"deployment/{name}", "--timeout=90s", timeout_s=100.0)


@contextmanager
def lonely_namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    name = f"octavo-lonely-{uuid.uuid4().hex[:8]}"
    ensure_namespace(cluster, name)
    try:
        yield cluster.within(name)
    finally:
        cluster.delete("namespace", name, timeout_s=120.0)
