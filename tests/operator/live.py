"""InferenceServices on a real cluster: what tests create, wait for and read."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.installation import ensure_namespace, watched_namespace
from tests.cluster.kubectl import Kubectl, condition, wait_for

KIND = "inferenceservices.serving.octavo.dev"
Object = dict[str, Any]


def service(name: str, **spec: Any) -> Object:
    """An InferenceService of the small model on a CPU; `spec` replaces fields."""
    return {
        "apiVersion": "serving.octavo.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {
            "model": {"source": "file:///models/smollm2.gguf"},
            "device": "cpu",
            "resources": {"cpu": "100m", "memory": "2Gi"},
            "runtime": {"kvCache": {"memory": "128Mi"}, "maxModelLen": 512},
            **spec,
        },
    }


@contextmanager
def shared_namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    """A namespace for all tests of a module, since making one takes seconds; where the operator watches only one, that one."""
    watched = watched_namespace(cluster.access)
    name = watched or f"octavo-test-{uuid.uuid4().hex[:8]}"
    ensure_namespace(cluster, name)
    kubectl = cluster.within(name)
    try:
        yield kubectl
    finally:
        kubectl.run("delete", KIND, "--all", timeout_s=120.0)
        if not watched:
            cluster.delete("namespace", name, timeout_s=180.0)


@contextmanager
def applied(kubectl: Kubectl, *services: Object) -> Iterator[None]:
    """The services while the block runs."""
    kubectl.apply(*services)
    try:
        yield
    finally:
        for item in services:
            kubectl.delete(KIND, item["metadata"]["name"])


def reason_of(kubectl: Kubectl, name: str, kind: str = "Ready") -> str:
    found = condition(kubectl.get(KIND, name), kind)
    return f"{found.get('status')} {found.get('reason')}: {found.get('message')}"


def wait_for_condition(
    kubectl: Kubectl, name: str, kind: str, status: str, *, says: str = "", timeout_s: float = 30.0
) -> Object:
    """The object once its condition is of its newest generation, has that status, and its reason or message says so."""

    def holds() -> Object | None:
        found = kubectl.get(KIND, name)
        if found is None:
            return None
        entry = condition(found, kind)
        current = entry.get("observedGeneration") == found["metadata"]["generation"]
        text = f"{entry.get('reason')}: {entry.get('message')}"
        return found if current and entry.get("status") == status and says in text else None

    try:
        return wait_for(holds, timeout_s, f"{name} to be {kind}={status} {says}")
    except TimeoutError as error:
        raise TimeoutError(f"{error}; it is {reason_of(kubectl, name, kind)}") from error


def versions(kubectl: Kubectl, name: str) -> dict[str, str]:
    """resourceVersion of the object and its children: a write changes it."""
    found = {kind: kubectl.get(kind, name) for kind in (KIND, "deployment", "service")}
    return {kind: item["metadata"]["resourceVersion"] for kind, item in found.items() if item is not None}
