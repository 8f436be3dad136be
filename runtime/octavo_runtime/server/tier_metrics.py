"""What `/metrics` shows of the tiers below the KV pool, each with a label `tier`: `memory` or `disk`. Without tiers: nothing."""

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from octavo_runtime.messages import TierStats

_LABELS = ("model_name", "engine", "tier")
_GAUGES = (
    ("octavo_tier_blocks", "blocks", "KV blocks in a tier below the pool."),
    ("octavo_tier_bytes", "bytes", "Bytes that the blocks of a tier take."),
)
_TOTALS = (  # counter, the total of `TierStats` it follows, what it is
    ("octavo_tier_hits_blocks", "hits_total", "KV blocks brought back from a tier."),
    ("octavo_tier_written_bytes", "written_bytes_total", "Bytes written to a tier."),
    ("octavo_tier_read_bytes", "read_bytes_total", "Bytes brought back from a tier."),
    ("octavo_tier_dropped_blocks", "dropped_total", "KV blocks that a tier had no room for or could not write."),
    ("octavo_tier_corrupt_blocks", "corrupt_total", "KV blocks of a tier that were not what was put: computed again."),
)


def tier_gauges(tiers: Sequence[TierStats], labels: tuple[str, str]) -> Iterator[Metric]:
    """`labels`: the values of model_name and engine."""
    for name, field, text in _GAUGES if tiers else ():
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for tier in tiers:
            family.add_metric((*labels, tier.tier), getattr(tier, field))
        yield family


class TierCounters:
    """Follow the engine's totals, over its restarts too."""

    def __init__(self, registry: CollectorRegistry, labels: tuple[str, str]) -> None:
        self._labels = labels
        self._counters = {field: Counter(name, text, _LABELS, registry=registry) for name, field, text in _TOTALS}
        self._last: dict[str, TierStats] = {}

    def step(self, tiers: Sequence[TierStats]) -> None:
        for tier in tiers:
            before = self._last.get(tier.tier)
            for field, counter in self._counters.items():
                growth = getattr(tier, field) - getattr(before, field, 0)
                counter.labels(*self._labels, tier.tier).inc(max(0, growth))
            self._last[tier.tier] = tier

    def engine_restarted(self) -> None:
        self._last = {}
