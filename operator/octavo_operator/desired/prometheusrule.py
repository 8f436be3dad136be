"""The PrometheusRule of a service: its alerts as the Prometheus Operator takes them. Pure."""

from typing import Any

from octavo_operator.desired import labels
from octavo_operator.desired.alerts import Alert, alerts
from octavo_operator.service import Service


def prometheus_rule(service: Service) -> dict[str, Any]:
    metadata = labels.child_metadata(service, "alerts")
    # Named by namespace and service: Prometheus joins the groups of all objects in one list.
    groups = [
        {"name": f"octavo.{service.key.namespace}.{service.key.name}", "rules": list(map(_rule, alerts(service)))}
    ]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {**metadata, "labels": {**service.monitoring.labels, **metadata["labels"]}},
        "spec": {"groups": groups},
    }


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        **({} if alert.lasts == "0m" else {"for": alert.lasts}),
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook": alert.runbook},
    }
