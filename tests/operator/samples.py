"""InferenceServices and their children as the API server would hand them out."""

from typing import Any

from octavo_operator import pins, service

IMAGE = "registry.example/octavo-runtime:1"
UID = "5f0c8a52-3f0e-4a3c-9d5b-6a0c1c5f9c11"


def body(**spec: Any) -> dict[str, Any]:
    """A body whose `spec` fields replace those of a small CPU service."""
    return {
        "apiVersion": "serving.octavo.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": "demo", "uid": UID, "generation": 3},
        "spec": {
            "model": {"source": "file:///models/smollm2.gguf"},
            "device": "cpu",
            "parallelism": {"tensor": 1},
            **spec,
        },
    }


def parsed(**spec: Any) -> service.Service:
    return service.parse(body(**spec), pins.newest(IMAGE))
