"""The PodMonitor of a service: it tells the Prometheus Operator to scrape the pods' health port. Pure."""

from typing import Any

from octavo_operator import names
from octavo_operator.desired import labels
from octavo_operator.service import Service

# Often enough for an autoscaler, which decides every 15 seconds.
INTERVAL = "10s"


def pod_monitor(service: Service) -> dict[str, Any]:
    metadata = labels.child_metadata(service, "monitor")
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {**metadata, "labels": {**service.monitoring.labels, **metadata["labels"]}},
        "spec": {
            "selector": {"matchLabels": labels.serving_selector(service.key)},
            # Becomes the label that queries tell services apart by.
            "podTargetLabels": [names.SERVICE_LABEL],
            "podMetricsEndpoints": [{"port": "health", "path": "/metrics", "interval": INTERVAL}],
        },
    }
