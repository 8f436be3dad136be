"""Labels and metadata of children, once."""

from typing import Any

from octavo_operator import names
from octavo_operator.service import Key, Service

SERVER = "server"


def child_labels(service: Service, component: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "octavo-runtime",
        "app.kubernetes.io/instance": service.key.name,
        "app.kubernetes.io/component": component,
        names.MANAGED_BY_LABEL: names.MANAGED_BY,
        names.SERVICE_LABEL: service.key.name,
    }


def pod_labels(service: Service) -> dict[str, str]:
    return {**child_labels(service, SERVER), names.SERVING_LABEL: "true"}


def pod_selector(key: Key) -> dict[str, str]:
    """What finds all pods of a service. Selectors are immutable, so nothing that may change is in here."""
    return {names.SERVICE_LABEL: key.name}


def serving_selector(key: Key) -> dict[str, str]:
    """What finds the pods that answer requests."""
    return {**pod_selector(key), names.SERVING_LABEL: "true"}


def workload_metadata(service: Service) -> dict[str, Any]:
    """Metadata of the object that makes the pods; it remembers what they are made with."""
    image = {} if service.pin.image is None else {names.DEFAULT_IMAGE_ANNOTATION: service.pin.image}
    annotations = {names.RENDERER_ANNOTATION: service.pin.renderer, **image}
    return {**child_metadata(service, SERVER), "annotations": annotations}


def child_name(key: Key, component: str) -> str:
    """The workload and the Service are called as their service, the rest `<service>-<component>`."""
    return key.name if component == SERVER else f"{key.name}-{component}"


def child_metadata(service: Service, component: str) -> dict[str, Any]:
    """Metadata of a child that goes with its service."""
    return {
        "name": child_name(service.key, component),
        "namespace": service.key.namespace,
        "labels": child_labels(service, component),
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": service.key.name,
                "uid": service.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
