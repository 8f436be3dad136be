"""The Service in front of a service's pods."""

from typing import Any

from octavo_operator import names
from octavo_operator.desired import labels
from octavo_operator.service import Key, Service


def cluster_service(service: Service) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": labels.child_metadata(service, labels.SERVER),
        "spec": {
            "type": "ClusterIP",
            "selector": labels.serving_selector(service.key),
            "ports": [
                {
                    "name": "http",
                    "port": names.SERVICE_PORT,
                    "protocol": "TCP",
                    "targetPort": "http",
                    "appProtocol": "http",
                }
            ],
        },
    }


def url(key: Key) -> str:
    """Base address of the API inside the cluster."""
    return f"http://{key.name}.{key.namespace}.svc"
