"""InferenceServices on a real cluster: what tests create, wait for and read."""

from typing import Any

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
