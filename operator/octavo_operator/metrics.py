"""The operator's own metrics."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from octavo_operator import kube, queue, service, watches


class Metrics:
    """What workers count; everything else is read from its owner at each scrape."""

    def __init__(
        self,
        api: kube.Kube,
        keys: queue.KeyQueue[service.Key],
        leads: Callable[[], bool] = lambda: True,
        watched: watches.Watches | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "octavo_operator_reconciles", "Reconciles by outcome.", ["outcome"], registry=self.registry
        )
        self.seconds = Histogram("octavo_operator_reconcile_seconds", "Time a reconcile took.", registry=self.registry)
        self.registry.register(_Readings(api, keys, leads, watched or watches.Watches()))


class _Readings(Collector):
    def __init__(
        self,
        api: kube.Kube,
        keys: queue.KeyQueue[service.Key],
        leads: Callable[[], bool],
        watched: watches.Watches,
    ) -> None:
        self._api = api
        self._keys = keys
        self._leads = leads
        self._watched = watched

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        depth = GaugeMetricFamily("octavo_operator_queue_depth", "InferenceServices that wait for a worker.")
        depth.add_metric([], len(self._keys) if self._leads() else 0)
        leader = GaugeMetricFamily("octavo_operator_leader", "1 in the one process that works the queue and writes.")
        leader.add_metric([], self._leads())
        yield depth
        yield leader
        yield _counter("writes", "Writes to the API server by kind, but for the lease.", "kind", self._api.writes)
        yield _counter("api_requests", "Requests to the API server by verb, watches aside.", "verb", self._api.requests)
        yield _counter("api_errors", "Requests that failed, by HTTP status or error.", "error", self._api.errors)
        ages = GaugeMetricFamily(
            "octavo_operator_watch_age_seconds", "Time since a watch was last heard of.", labels=["watch"]
        )
        for path, age_s in self._watched.ages_s().items():
            ages.add_metric([path], age_s)
        yield ages


def _counter(name: str, text: str, label: str, counts: dict[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"octavo_operator_{name}", text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
