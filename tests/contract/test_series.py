"""Every series that alerts, dashboards, autoscalers and the adapter's rules name is one that the runtime or the operator has."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from octavo_operator import names
from octavo_operator.desired.alerts import alerts
from octavo_operator.desired.podmonitor import pod_monitor
from octavo_operator.spec.autoscaling import SERIES
from tests.contract.series import exported, of_the_operator, series
from tests.operator.samples import parsed

CHART = Path(__file__).parents[2] / "charts" / "octavo"
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param('avg(octavo_a{x="y"}) >= 4', {"octavo_a"}, id="mean"),
        pytest.param("(avg(a) > 1 or avg(b) > 2) and on () count(c) >= 3", {"a", "b", "c"}, id="several"),
        pytest.param(
            "histogram_quantile(0.95, sum by (le) (rate(vllm:x_bucket{a}[5m])))", {"vllm:x_bucket"}, id="quantile"
        ),
    ],
)
def test_series_are_found_in_an_expression(expression: str, expected: set[str]) -> None:
    assert {word for word in series(expression) if not word.isdigit()} == expected


def test_alerts_read_what_pods_export() -> None:
    known = exported()
    for alert in alerts(parsed(autoscaling={"maxReplicas": 2})):
        assert series(alert.expression) <= known, alert.name


@pytest.mark.parametrize("path", DASHBOARDS, ids=[path.stem for path in DASHBOARDS])
def test_panels_read_what_pods_and_operator_export(path: Path) -> None:
    known = exported() | of_the_operator()
    dashboard = json.loads(path.read_text())
    assert len(expressions(dashboard)) >= len(dashboard["panels"]) >= 10
    for expression in expressions(dashboard):
        found = series(expression)
        assert found, expression
        assert found <= known, expression


@pytest.mark.parametrize("path", DASHBOARDS, ids=[path.stem for path in DASHBOARDS])
def test_dashboards_ask_the_chosen_source_by_their_own_variables(path: Path) -> None:
    dashboard = json.loads(path.read_text())
    declared = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert "datasource" in declared
    text = json.dumps(dashboard)
    assert set(re.findall(r"\$\{?(\w+)", text)) - {"__all"} <= declared
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in dashboard["panels"])


def test_autoscalers_read_what_pods_export() -> None:
    assert set(SERIES.values()) <= exported()


def test_the_adapters_rules_serve_all_that_is_scaled_by_and_nothing_else() -> None:
    [rule] = yaml.safe_load((CHART / "files" / "prometheus-adapter.yaml").read_text())["rules"]
    pattern = re.search(r'__name__=~"([^"]+)"', rule["seriesQuery"])
    assert pattern is not None
    served = {name for name in exported() if re.fullmatch(pattern[1], name)}
    assert served == set(SERIES.values())


def test_the_label_of_services_is_what_prometheus_makes_of_the_pods_label() -> None:
    [label] = pod_monitor(parsed())["spec"]["podTargetLabels"]
    assert re.sub(r"[^a-zA-Z0-9_]", "_", label) == names.SERVICE_SERIES_LABEL
