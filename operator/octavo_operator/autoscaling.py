"""Whether what a service is scaled by arrives at its autoscaler: the condition AutoscalingSignalReady. Pure.

Pods export series, Prometheus scrapes them, an adapter serves them as a metrics API, an autoscaler reads that. A link that is
missing shows nowhere but in that the number of pods never changes, so the condition names it. The autoscaler's own word that it
has its metrics is believed; only where it has none is the way gone along, from the pods outward.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from octavo_operator import names
from octavo_operator.conditions import Condition
from octavo_operator.service import Service
from octavo_operator.spec.autoscaling import Autoscaling

TYPE = "AutoscalingSignalReady"
CUSTOM_METRICS = "custom.metrics.k8s.io/v1beta1"
EXTERNAL_METRICS = "external.metrics.k8s.io/v1beta1"
METRICS_APIS = {"hpa": CUSTOM_METRICS, "keda": EXTERNAL_METRICS}
GUIDE = "docs/autoscaling.md"
LOOK_AGAIN_S = 30.0


@dataclasses.dataclass(frozen=True)
class Links:
    """The way from the pods to the autoscaler. `exported` holds what each pod that takes requests exports, by the pod's name, None
    where it does not answer; `metrics_api` the resources that the provider's metrics API lists, None where it is not served.
    """

    exported: Mapping[str, frozenset[str] | None] = dataclasses.field(default_factory=dict)
    metrics_api: frozenset[str] | None = None


@dataclasses.dataclass(frozen=True)
class AutoscalerView:
    """A HorizontalPodAutoscaler: `active` where it has computed a number of pods from at least one metric, None where it has not
    tried yet; `trouble` is what it says where it has not; `metrics` those that it had a value of.
    """

    active: bool | None
    trouble: str = ""
    metrics: frozenset[str] = frozenset()

    def has_all(self, autoscaling: Autoscaling) -> bool:
        """Whether each metric had a value. KEDA's names are its own, so only their number is compared."""
        return bool(self.active) and len(self.metrics) >= len(autoscaling.metrics)


@dataclasses.dataclass(frozen=True)
class Signal:
    """What was seen of the way; `autoscaler` is None where there is none yet, and `links` is empty where it has all its metrics.

    `keda_served` and `prometheus_url` are what KEDA needs.
    """

    autoscaler: AutoscalerView | None = None
    links: Links = dataclasses.field(default_factory=Links)
    keda_served: bool = False
    prometheus_url: str | None = None


def autoscaler_view(live: Mapping[str, Any]) -> AutoscalerView:
    status = live.get("status", {})
    found = {condition["type"]: condition for condition in status.get("conditions", ())}
    able, active = found.get("AbleToScale", {}), found.get("ScalingActive", {})
    wrong: Mapping[str, Any] = next((entry for entry in (able, active) if entry.get("status") == "False"), {})
    # Before its first success each metric has an entry without a name.
    named = (_metric_name(entry) for entry in status.get("currentMetrics") or ())
    return AutoscalerView(
        active=None if not active and not wrong else not wrong,
        trouble=f"{wrong.get('reason')}: {wrong.get('message')}" if wrong else "",
        metrics=frozenset(filter(None, named)),
    )


def condition(service: Service, signal: Signal | None) -> Condition | None:
    """None where nothing is scaled."""
    autoscaling = service.autoscaling
    if autoscaling is None or signal is None:
        return None
    if autoscaling.provider == "keda" and (lacking := _keda_lacks(signal)):
        return lacking
    if signal.autoscaler is not None and signal.autoscaler.has_all(autoscaling):
        series = ", ".join(metric.series for metric in autoscaling.metrics)
        return Condition.of(TYPE, True, "SignalArrives", f"the autoscaler has a value of {series}")
    return _broken_link(service, autoscaling, signal.autoscaler, signal.links)


def look_again_s(service: Service, signal: Signal | None) -> float | None:
    """When a link that is missing may have come, of which no event tells."""
    found = condition(service, signal)
    return None if found is None or found.status == "True" else LOOK_AGAIN_S


def _keda_lacks(signal: Signal) -> Condition | None:
    if not signal.keda_served:
        return Condition.of(
            TYPE,
            False,
            "KedaNotServed",
            "ScaledObjects (scaledobjects.keda.sh) are not served: install KEDA, or set spec.autoscaling.provider to hpa",
        )
    if not signal.prometheus_url:
        return Condition.of(
            TYPE,
            False,
            "NoPrometheusAddress",
            "the operator does not know where KEDA finds Prometheus: set the chart's value autoscaling.prometheusAddress",
        )
    return None


def _broken_link(
    service: Service, autoscaling: Autoscaling, autoscaler: AutoscalerView | None, links: Links
) -> Condition:
    series = [metric.series for metric in autoscaling.metrics]
    if not links.exported:
        text = "no pod takes requests yet, and only one that does exports what is scaled by"
        return Condition.of(TYPE, None, "NoReadyPod", text)
    answers = {pod: found for pod, found in links.exported.items() if found is not None}
    if not answers:
        return Condition.of(TYPE, None, "PodsSilent", _silent(min(links.exported)))
    if missing := _not_exported(series, answers):
        return Condition.of(TYPE, False, "SeriesNotExported", missing)
    if links.metrics_api is None:
        return Condition.of(TYPE, False, "MetricsApiNotServed", _no_api(autoscaling))
    if autoscaling.provider == "hpa" and (unknown := _not_scraped(service, series, links.metrics_api)):
        return Condition.of(TYPE, False, "SeriesNotScraped", unknown)
    if autoscaler is None or (autoscaler.active is None and not autoscaler.trouble):
        return Condition.of(TYPE, None, "Waiting", "the autoscaler has not asked for its metrics yet")
    return Condition.of(TYPE, False, "NoValue", _no_value(service, series, autoscaler))


def _silent(pod: str) -> str:
    return (
        f"the pod {pod} does not answer the operator on port {names.HEALTH_PORT} (/metrics), as it may not answer Prometheus: "
        f"does a NetworkPolicy keep them out?"
    )


def _not_exported(series: Sequence[str], exported: Mapping[str, frozenset[str]]) -> str:
    for pod, found in sorted(exported.items()):
        if missing := [name for name in series if name not in found]:
            return (
                f"the pod {pod} does not export {', '.join(missing)}: its runtime is older than the operator; set "
                f"spec.runtime.image to a newer one, or scale by another metric"
            )
    return ""


def _no_api(autoscaling: Autoscaling) -> str:
    api = METRICS_APIS[autoscaling.provider].partition("/")[0]
    remedy = (
        f"install prometheus-adapter with the chart's rules ({GUIDE})"
        if autoscaling.provider == "hpa"
        else "see that KEDA's metrics server runs"
    )
    return f"the metrics API {api} does not answer: {remedy}"


def _not_scraped(service: Service, series: Sequence[str], known: frozenset[str]) -> str:
    unknown = [name for name in series if f"pods/{name}" not in known]
    if not unknown:
        return ""
    return (
        f"the metrics API does not know {', '.join(unknown)}, which the pods export: {_scraping(service)}, or the adapter lacks "
        f"the chart's rules ({GUIDE})"
    )


def _no_value(service: Service, series: Sequence[str], autoscaler: AutoscalerView) -> str:
    said = autoscaler.trouble or f"it has a value of {', '.join(sorted(autoscaler.metrics)) or 'none'}"
    return f"the autoscaler lacks a value of {', '.join(series)}: {_scraping(service)}; it says {said}"


def _scraping(service: Service) -> str:
    if service.monitoring.pod_monitor:
        return (
            "Prometheus does not scrape them, although there is a PodMonitor (does it select spec.monitoring.labels?)"
        )
    return "Prometheus does not scrape them (spec.monitoring.podMonitor makes a PodMonitor)"


def _metric_name(entry: Mapping[str, Any]) -> str:
    for kind in ("pods", "external"):
        if kind in entry:
            return str(entry[kind].get("metric", {}).get("name", ""))
    return ""
