"""Inspections, the pods that made them, and statuses that keep them."""

from typing import Any

from octavo_operator import names
from octavo_operator.desired import pod
from octavo_operator.desired.inspect import digest, inspection_pod
from octavo_operator.fitting.workload import runtime_container
from octavo_operator.service import Service
from octavo_sizing.inspection import Inspection, StoredBytes
from octavo_sizing.model import Model
from tests.sizing.models import LLAMA_8B, SMOLLM2_135M

GIB = 1 << 30


def inspected(model: Model = SMOLLM2_135M, revision: str | None = None) -> Inspection:
    return Inspection("file:///models/x", "safetensors", "bfloat16", StoredBytes(mlp=100), model, revision)


LARGE = inspected(LLAMA_8B)


def key_of(service: Service) -> str:
    """What an inspection of the model of `service` is known under."""
    serving = pod.template(service)["spec"]
    return digest(inspection_pod(serving, runtime_container(serving)))


def status_with(service: Service, found: Inspection) -> dict[str, Any]:
    return {"inspection": {"key": key_of(service), **found.to_fields()}}


def inspecting_pod(key: str, phase: str = "Pending", **state: Any) -> dict[str, Any]:
    """A pod that inspects, with its container's `state`."""
    statuses = [{"name": "inspect", "image": "runtime:1", "state": state}] if state else []
    return {
        "metadata": {"name": "x", "labels": {names.INSPECTS_LABEL: "chat", names.INSPECTION_LABEL: key}},
        "spec": {"containers": [{"name": "inspect", "image": "runtime:1"}]},
        "status": {"phase": phase, "containerStatuses": statuses},
    }
