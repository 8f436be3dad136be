"""The operator's own metrics."""

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from octavo_operator import kube, queue, service


class Metrics:
    """What workers count; queue depth and writes are read from their owners at each scrape."""

    def __init__(self, api: kube.Kube, keys: queue.KeyQueue[service.Key]) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "octavo_operator_reconciles", "Reconciles by outcome.", ["outcome"], registry=self.registry
        )
        self.seconds = Histogram("octavo_operator_reconcile_seconds", "Time a reconcile took.", registry=self.registry)
        self.registry.register(_Readings(api, keys))


class _Readings(Collector):
    def __init__(self, api: kube.Kube, keys: queue.KeyQueue[service.Key]) -> None:
        self._api = api
        self._keys = keys

    def collect(self) -> list[GaugeMetricFamily | CounterMetricFamily]:
        depth = GaugeMetricFamily("octavo_operator_queue_depth", "InferenceServices that wait for a worker.")
        depth.add_metric([], len(self._keys))
        writes = CounterMetricFamily("octavo_operator_writes", "Writes to the API server by kind.", labels=["kind"])
        for kind, count in self._api.writes.items():
            writes.add_metric([kind], count)
        return [depth, writes]
