"""AutoscalingSignalReady names the link that is missing between a service's pods and its autoscaler."""

import dataclasses
from typing import Any

import pytest

from octavo_operator.autoscaling import (
    LOOK_AGAIN_S,
    AutoscalerView,
    Links,
    Signal,
    autoscaler_view,
    condition,
    look_again_s,
)
from octavo_operator.service import Service
from tests.operator.samples import parsed

BLOCKS, QUEUE = "octavo_kv_block_utilization", "octavo_requests_waiting"
EXPORTED = {"chat-1": frozenset({BLOCKS, QUEUE})}
LISTED = frozenset({f"pods/{BLOCKS}", f"pods/{QUEUE}", f"namespaces/{BLOCKS}"})
SILENT = AutoscalerView(False, "FailedGetPodsMetric: no metrics returned")
WHOLE = Signal(SILENT, Links(EXPORTED, LISTED))


def scaled(provider: str = "hpa", *metrics: str, **spec: Any) -> Service:
    chosen = {"metrics": [{"type": metric} for metric in metrics]} if metrics else {}
    return parsed(autoscaling={"maxReplicas": 4, "provider": provider, **chosen}, **spec)


def said(service: Service, signal: Signal | None) -> tuple[str, str, str]:
    found = condition(service, signal)
    assert found is not None
    assert found.type == "AutoscalingSignalReady"
    return found.status, found.reason, found.message


def test_it_is_absent_where_nothing_is_scaled() -> None:
    assert condition(parsed(), Signal()) is None
    assert condition(scaled(), None) is None
    assert look_again_s(parsed(), None) is None


def test_the_autoscalers_word_that_it_has_its_metrics_is_believed() -> None:
    signal = Signal(AutoscalerView(True, metrics=frozenset({BLOCKS})))
    assert said(scaled(), signal) == ("True", "SignalArrives", f"the autoscaler has a value of {BLOCKS}")
    assert look_again_s(scaled(), signal) is None


@pytest.mark.parametrize(
    ("links", "autoscaler", "expected"),
    [
        pytest.param(Links(), SILENT, ("Unknown", "NoReadyPod", "no pod takes requests"), id="no pod"),
        pytest.param(
            Links({"chat-1": None}, LISTED),
            SILENT,
            ("Unknown", "PodsSilent", "chat-1 does not answer the operator on port 8001"),
            id="no answer",
        ),
        pytest.param(
            Links({"chat-1": frozenset()}, LISTED),
            SILENT,
            ("False", "SeriesNotExported", f"the pod chat-1 does not export {BLOCKS}"),
            id="an old runtime",
        ),
        pytest.param(
            Links(EXPORTED, None),
            SILENT,
            ("False", "MetricsApiNotServed", "install prometheus-adapter"),
            id="no adapter",
        ),
        pytest.param(
            Links(EXPORTED, frozenset({f"pods/{QUEUE}"})),
            SILENT,
            ("False", "SeriesNotScraped", f"does not know {BLOCKS}"),
            id="not scraped",
        ),
        pytest.param(Links(EXPORTED, LISTED), None, ("Unknown", "Waiting", "has not asked"), id="no autoscaler yet"),
        pytest.param(
            Links(EXPORTED, LISTED),
            AutoscalerView(None),
            ("Unknown", "Waiting", "has not asked"),
            id="a new autoscaler",
        ),
        pytest.param(
            Links(EXPORTED, LISTED), SILENT, ("False", "NoValue", "FailedGetPodsMetric: no metrics"), id="no value"
        ),
    ],
)
def test_the_missing_link_is_named_from_the_pods_outward(
    links: Links, autoscaler: AutoscalerView | None, expected: tuple[str, str, str]
) -> None:
    status, reason, message = said(scaled(), Signal(autoscaler, links))
    assert (status, reason) == expected[:2]
    assert expected[2] in message
    assert look_again_s(scaled(), Signal(autoscaler, links)) == LOOK_AGAIN_S


def test_one_of_two_metrics_is_not_enough() -> None:
    two = scaled("hpa", "BlockUtilization", "QueueLength")
    signal = Signal(AutoscalerView(True, metrics=frozenset({BLOCKS})), Links(EXPORTED, LISTED))
    status, reason, message = said(two, signal)
    assert (status, reason) == ("False", "NoValue")
    assert f"it has a value of {BLOCKS}" in message.replace("it says ", "")


@pytest.mark.parametrize(
    ("monitoring", "says"),
    [
        pytest.param({}, "spec.monitoring.podMonitor makes a PodMonitor", id="without a PodMonitor"),
        pytest.param({"podMonitor": True}, "although there is a PodMonitor", id="with one"),
    ],
)
def test_what_to_do_about_scraping_depends_on_what_is_there(monitoring: dict[str, Any], says: str) -> None:
    signal = Signal(SILENT, Links(EXPORTED, frozenset()))
    assert says in said(scaled(monitoring=monitoring), signal)[2]


@pytest.mark.parametrize(
    ("change", "reason", "says"),
    [
        pytest.param({"keda_served": False}, "KedaNotServed", "install KEDA", id="no KEDA"),
        pytest.param({"prometheus_url": None}, "NoPrometheusAddress", "autoscaling.prometheusAddress", id="no address"),
        pytest.param({"links": Links(EXPORTED, None)}, "MetricsApiNotServed", "metrics server runs", id="no adapter"),
        pytest.param({}, "NoValue", "FailedGetExternalMetric", id="no value"),
    ],
)
def test_keda_has_links_of_its_own(change: dict[str, Any], reason: str, says: str) -> None:
    whole = Signal(
        AutoscalerView(False, "FailedGetExternalMetric: s0-prometheus"),
        Links(EXPORTED, frozenset({"externalmetrics"})),
        keda_served=True,
        prometheus_url="http://prometheus:9090",
    )
    status, found, message = said(scaled("keda"), dataclasses.replace(whole, **change))
    assert (status, found) == ("False", reason)
    assert says in message


def hpa(*conditions: tuple[str, str, str], metrics: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "status": {
            "conditions": [
                {"type": kind, "status": status, "reason": reason, "message": "so it is"}
                for kind, status, reason in conditions
            ],
            "currentMetrics": metrics,
        }
    }


POD_METRIC = {"type": "Pods", "pods": {"metric": {"name": BLOCKS}, "current": {"averageValue": "123m"}}}
EXTERNAL = {"type": "External", "external": {"metric": {"name": "s0-prometheus"}, "current": {"averageValue": "1"}}}
ABLE = ("AbleToScale", "True", "SucceededGetScale")


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        pytest.param({}, AutoscalerView(None), id="new"),
        pytest.param(hpa(ABLE), AutoscalerView(None), id="has found its workload"),
        pytest.param(
            hpa(ABLE, ("ScalingActive", "True", "ValidMetricFound"), metrics=[POD_METRIC, {"type": ""}]),
            AutoscalerView(True, metrics=frozenset({BLOCKS})),
            id="one metric of two",
        ),
        pytest.param(
            hpa(ABLE, ("ScalingActive", "True", "ValidMetricFound"), metrics=[EXTERNAL]),
            AutoscalerView(True, metrics=frozenset({"s0-prometheus"})),
            id="external",
        ),
        pytest.param(
            hpa(ABLE, ("ScalingActive", "False", "FailedGetPodsMetric")),
            AutoscalerView(False, "FailedGetPodsMetric: so it is"),
            id="no metric",
        ),
        pytest.param(
            hpa(("AbleToScale", "False", "FailedGetScale")),
            AutoscalerView(False, "FailedGetScale: so it is"),
            id="no workload",
        ),
    ],
)
def test_an_autoscaler_is_read_as_it_speaks(live: dict[str, Any], expected: AutoscalerView) -> None:
    assert autoscaler_view(live) == expected
