"""PodMonitors and alerts of services, and whether they can be made."""

from typing import Any

import pytest

from octavo_operator import kinds, monitoring
from octavo_operator.desired.alerts import alerts
from octavo_operator.desired.podmonitor import pod_monitor
from octavo_operator.desired.prometheusrule import prometheus_rule
from octavo_operator.observed import Observed
from tests.operator.samples import parsed

BOTH = {"podMonitor": True, "prometheusRule": True, "labels": {"release": "stack"}}


def test_a_pod_monitor_scrapes_the_pods_that_serve_on_their_health_port() -> None:
    body = pod_monitor(parsed(monitoring=BOTH))
    assert body["metadata"]["name"] == "chat-monitor"
    assert body["metadata"]["labels"]["release"] == "stack"
    assert body["spec"] == {
        "selector": {"matchLabels": {"serving.octavo.dev/service": "chat", "serving.octavo.dev/serving": "true"}},
        "podTargetLabels": ["serving.octavo.dev/service"],
        "podMetricsEndpoints": [{"port": "health", "path": "/metrics", "interval": "10s"}],
    }


def test_a_users_label_does_not_replace_one_of_ours() -> None:
    body = pod_monitor(parsed(monitoring={**BOTH, "labels": {"serving.octavo.dev/service": "other"}}))
    assert body["metadata"]["labels"]["serving.octavo.dev/service"] == "chat"


def test_every_alert_speaks_of_its_service_and_says_what_to_do() -> None:
    body = prometheus_rule(parsed(monitoring=BOTH, autoscaling={"maxReplicas": 4}))
    [group] = body["spec"]["groups"]
    assert group["name"] == "octavo.demo.chat"
    assert len(group["rules"]) >= 8
    for rule in group["rules"]:
        assert 'namespace="demo",serving_octavo_dev_service="chat"' in rule["expr"]
        assert rule["annotations"]["runbook"].startswith("1. ")
        assert "demo/chat" in rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("critical", "warning")


@pytest.mark.parametrize(
    "spec",
    [pytest.param({"suspend": True}, id="suspended"), pytest.param({"replicas": 0}, id="no replicas")],
)
def test_nothing_is_said_of_a_service_without_pods(spec: dict[str, Any]) -> None:
    assert alerts(parsed(**spec)) == []


def test_an_autoscaler_at_its_end_is_told_of_by_its_own_targets() -> None:
    scaled = {"maxReplicas": 4, "metrics": [{"type": "BlockUtilization", "targetPercent": 85}, {"type": "QueueLength"}]}
    [alert] = [alert for alert in alerts(parsed(autoscaling=scaled)) if alert.name == "OctavoAutoscalerExhausted"]
    assert "avg(octavo_kv_block_utilization" in alert.expression
    assert "> 0.85" in alert.expression
    assert "> 4)" in alert.expression
    assert ">= 4" in alert.expression
    assert "OctavoAutoscalerExhausted" not in {alert.name for alert in alerts(parsed(replicas=2))}


@pytest.mark.parametrize(
    ("asked", "served", "expected"),
    [
        pytest.param({}, frozenset(), None, id="nothing asked for"),
        pytest.param(BOTH, frozenset({kinds.POD_MONITOR, kinds.PROMETHEUS_RULE}), ("True", "Applied"), id="both"),
        pytest.param(BOTH, frozenset({kinds.POD_MONITOR}), ("False", "NotServed"), id="one kind is not served"),
        pytest.param({"podMonitor": True}, frozenset({kinds.POD_MONITOR}), ("True", "Applied"), id="one of one"),
    ],
)
def test_a_condition_says_whether_the_cluster_knows_monitors(
    asked: dict[str, Any], served: frozenset[kinds.Kind], expected: tuple[str, str] | None
) -> None:
    found = monitoring.condition(parsed(monitoring=asked), Observed(served=served))
    assert (found and (found.status, found.reason)) == expected
    if expected == ("False", "NotServed"):
        assert found is not None
        assert "prometheusrules.monitoring.coreos.com" in found.message
        assert "podmonitors" not in found.message
