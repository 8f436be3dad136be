"""What the chart brings for Prometheus and Grafana where it is asked to: dashboards, rules of the adapter, monitors."""

import json
from typing import Any

import yaml

from tests.chart.render import CHART
from tests.chart.rendering import Object, operator_pod, rendered
from tests.contract.series import of_the_operator, series

ON: dict[str, Any] = {"enabled": True}


def config_maps(**values: Any) -> dict[str, Object]:
    return {name: item for (kind, name), item in rendered(**values).items() if kind == "ConfigMap"}


def test_nothing_of_it_is_installed_unasked() -> None:
    kinds = {kind for kind, _ in rendered()}
    assert not kinds & {"ConfigMap", "PodMonitor", "PrometheusRule"}


def test_dashboards_are_config_maps_that_grafana_finds() -> None:
    found = config_maps(monitoring={"dashboards": {**ON, "namespace": "grafana", "labels": {"show": "yes"}}})
    assert set(found) == {f"octavo-operator-dashboard-{name}" for name in ("fleet", "service", "pod")}
    for item in found.values():
        assert item["metadata"]["namespace"] == "grafana"
        assert item["metadata"]["labels"]["show"] == "yes"
        [(name, text)] = item["data"].items()
        path = CHART / "dashboards" / name.removeprefix("octavo-")
        assert json.loads(text) == json.loads(path.read_text())


def test_each_dashboard_has_its_own_identity() -> None:
    boards = [json.loads(path.read_text()) for path in (CHART / "dashboards").glob("*.json")]
    assert len({board["uid"] for board in boards}) == len({board["title"] for board in boards}) == 3


def test_the_adapters_rules_are_a_config_map_in_its_namespace() -> None:
    found = config_maps(autoscaling={"prometheusAdapterRules": {**ON, "namespace": "monitoring"}})
    [item] = found.values()
    assert item["metadata"]["namespace"] == "monitoring"
    source = yaml.safe_load((CHART / "files" / "prometheus-adapter.yaml").read_text())
    assert yaml.safe_load(item["data"]["config.yaml"]) == source


def test_the_operator_is_told_where_prometheus_is() -> None:
    arguments = operator_pod(rendered())["containers"][0]["args"]
    assert not [argument for argument in arguments if "prometheus" in argument]
    found = rendered(autoscaling={"prometheusAddress": "http://prometheus.monitoring.svc:9090"})
    arguments = operator_pod(found)["containers"][0]["args"]
    assert "--prometheus-address=http://prometheus.monitoring.svc:9090" in arguments


def test_the_operators_monitor_finds_its_metrics_port() -> None:
    found = rendered(monitoring={"podMonitor": {**ON, "labels": {"release": "stack"}}})
    monitor = found["PodMonitor", "octavo-operator"]
    assert monitor["metadata"]["labels"]["release"] == "stack"
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    ports = {port["name"] for port in operator_pod(found)["containers"][0]["ports"]}
    assert endpoint["port"] in ports
    labels = found["Deployment", "octavo-operator"]["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_operators_alerts_read_what_it_exports_and_say_what_to_do() -> None:
    rule = rendered(monitoring={"prometheusRule": ON})["PrometheusRule", "octavo-operator"]
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    assert len(alerts) >= 4
    for alert in alerts:
        assert series(alert["expr"]) <= of_the_operator()
        assert alert["annotations"]["runbook"].startswith("1. ")
