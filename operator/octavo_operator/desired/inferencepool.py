"""The InferencePool of a service: the pods that answer, as gateways with an endpoint picker address them.

The pods' API port also serves the metrics that the picker reads, under the names that it expects.
"""

from typing import Any

from octavo_operator import kinds, names
from octavo_operator.desired import labels
from octavo_operator.service import Service
from octavo_operator.spec.routing import EndpointPicker

COMPONENT = "pool"


def inference_pool(service: Service) -> dict[str, Any] | None:
    """The pool that spec.routing.inferencePool asks for, else None."""
    picker = service.routing.picker
    if picker is None:
        return None
    return {
        "apiVersion": kinds.INFERENCE_POOL.api_version,
        "kind": kinds.INFERENCE_POOL.kind,
        "metadata": labels.child_metadata(service, COMPONENT),
        "spec": {
            "selector": {"matchLabels": labels.serving_selector(service.key)},
            "targetPorts": [{"number": names.API_PORT}],
            "endpointPickerRef": _reference(picker),
        },
    }


def _reference(picker: EndpointPicker) -> dict[str, Any]:
    return {
        "group": "",
        "kind": "Service",
        "name": picker.name,
        "port": {"number": picker.port},
        "failureMode": picker.failure_mode,
    }
