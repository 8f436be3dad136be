"""What `/metrics` shows: our own names, and vLLM's for what vLLM also has, so that its dashboards and scalers work unconfigured.

Gauges are computed at scrape from the engine's newest counts, so they cannot get stuck; counters and histograms grow with the
messages of the engine and the ends of requests. Names: DESIGN section 3; buckets: vLLM's.
"""

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import get_args

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from octavo_runtime.messages import LADDER, ErrorKind, Stats, StepOutputs
from octavo_runtime.server.gauges import Snapshot, gauges
from octavo_runtime.server.tier_metrics import TierCounters

LABELS = ("model_name", "engine")
FIRST_TOKEN_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0),
)
LATENCY_BUCKETS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
STEP_TOKEN_BUCKETS = (1, 8, *(2**power for power in range(4, 15)))
LENGTH_BUCKETS = tuple(digit * 10**power for power in range(6) for digit in (1, 2, 5))
BATCH_BUCKETS = tuple(2**power for power in range(11))
CHOICE_BUCKETS = (1, 2, 5, 10, 20, 50, 100)
FORECAST_BUCKETS = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0)
TOTALS = (  # counter, the total of `Stats` it follows, what it is
    ("vllm:num_preemptions", "preemptions_total", "Sequences whose pages were taken back before they were done."),
    ("vllm:prefix_cache_queries", "prefix_queries_tokens_total", "Prompt tokens looked up in the prefix cache."),
    ("vllm:prefix_cache_hits", "prefix_hits_tokens_total", "Prompt tokens found in the prefix cache."),
    ("octavo_prefix_queries_tokens", "prefix_queries_tokens_total", "Prompt tokens looked up in the prefix cache."),
    ("octavo_prefix_hits_tokens", "prefix_hits_tokens_total", "Prompt tokens found in the prefix cache."),
    (
        "octavo_tier_hits_tokens",
        "tier_hits_tokens_total",
        "Tokens whose keys and values came from a tier below the pool.",
    ),
    (
        "octavo_swapped_sequences",
        "swapped_total",
        "Preempted sequences that left nothing to compute again, for the tiers.",
    ),
    ("octavo_page_copies", "page_copies_total", "KV pages copied because a sequence that shared one wrote to it."),
    (
        "octavo_kv_evicted_tokens",
        "evicted_tokens_total",
        "Tokens whose keys and values were given up to stay within a sequence's budget.",
    ),
    (
        "octavo_preempted_ahead",
        "preempted_ahead_total",
        "Sequences preempted by the memory ladder before pages lacked.",
    ),
    ("octavo_requests_capped", "capped_total", "Requests whose length the memory ladder capped."),
    (
        "octavo_kv_guard_compared",
        "guard_compared_total",
        "Tokens of requests in 8 bits compared with the full KV format.",
    ),
    ("octavo_kv_guard_same", "guard_same_total", "Of these, tokens that the full KV format gives too."),
    ("octavo_failed_steps", "failed_steps_total", "Engine steps that found no memory and were rolled back."),
    ("octavo_late_compilations", "late_compilations_total", "Kernels compiled, or shapes met first, after warm-up."),
    ("octavo_engine_busy_seconds", "busy_s_total", "Seconds with an engine step in flight."),
)
REASONS = ("stop", "length", "abort", "error")


class Metrics:
    """One process's registry. Observations come from the event loop's thread; scrapes from any."""

    def __init__(self, model_name: str, snapshot: Collector) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # `_created` series help nobody
        self._registry = CollectorRegistry()
        self._registry.register(snapshot)
        ProcessCollector(registry=self._registry)
        self._labels = (model_name, "0")
        self._last: Stats | None = None
        self._declare_counters()
        self._declare_histograms()

    def _declare_counters(self) -> None:
        self._prompt_tokens = self._counter("vllm:prompt_tokens", "Prompt tokens computed.")
        self._generated_tokens = self._counter("vllm:generation_tokens", "Tokens generated.")
        self._tiers = TierCounters(self._registry, self._labels)
        self._totals = [(field, self._counter(name, text)) for name, field, text in TOTALS]
        self._restarts = self._counter("octavo_engine_restarts", "Times the engine process died and was started again.")
        self._success = Counter(
            "vllm:request_success",
            "Choices that ended, by reason; a request with n choices counts n times.",
            (*LABELS, "finished_reason"),
            registry=self._registry,
        )
        for reason in REASONS:
            self._success.labels(*self._labels, reason)
        degradation = Counter(
            "octavo_degradation",
            "Times that the memory ladder climbed to a step.",
            (*LABELS, "step"),
            registry=self._registry,
        )
        self._degradations = [degradation.labels(*self._labels, step) for step in LADDER]
        self._refused = Counter(
            "octavo_requests_refused",
            "Requests that the engine refused or gave up, by kind.",
            (*LABELS, "kind"),
            registry=self._registry,
        )
        for kind in get_args(ErrorKind):
            self._refused.labels(*self._labels, kind)

    def _declare_histograms(self) -> None:
        self.first_token_s = self._histogram(
            "vllm:time_to_first_token_seconds", "From a request's arrival to its first token.", FIRST_TOKEN_BUCKETS
        )
        self.token_gap_s = self._histogram(
            "vllm:inter_token_latency_seconds", "Between tokens of one request.", TOKEN_BUCKETS
        )
        self.latency_s = self._histogram(
            "vllm:e2e_request_latency_seconds", "From a request's arrival to its last token.", LATENCY_BUCKETS
        )
        self.prompt_length = self._histogram(
            "vllm:request_prompt_tokens", "Prompt tokens of a request.", LENGTH_BUCKETS
        )
        self.output_length = self._histogram(
            "vllm:request_generation_tokens", "Tokens generated for a choice.", LENGTH_BUCKETS
        )
        self._step_tokens = self._histogram(
            "vllm:iteration_tokens_total", "Tokens computed in one step.", STEP_TOKEN_BUCKETS
        )
        self._batch_size = self._histogram("octavo_batch_size", "Sequences in one step.", BATCH_BUCKETS)
        self.choices = self._histogram("vllm:request_params_n", "Choices that a request asked for.", CHOICE_BUCKETS)
        self._forecast_ratio = self._histogram(
            "octavo_output_length_over_forecast",
            "Tokens a sequence generated / the forecast it was admitted with.",
            FORECAST_BUCKETS,
        )

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, LABELS, registry=self._registry).labels(*self._labels)

    def _histogram(self, name: str, text: str, buckets: Iterable[float]) -> Histogram:
        return Histogram(name, text, LABELS, registry=self._registry, buckets=tuple(buckets)).labels(*self._labels)

    def step(self, message: StepOutputs) -> None:
        """Count what one step did."""
        stats = message.stats
        self._prompt_tokens.inc(stats.step_prompt_tokens)
        self._generated_tokens.inc(stats.step_generated_tokens)
        if stats.batch_size:
            self._step_tokens.observe(stats.step_tokens)
            self._batch_size.observe(stats.batch_size)
        for ratio in stats.step_forecast_ratios:
            self._forecast_ratio.observe(ratio)
        for field, counter in self._totals:
            counter.inc(_growth(getattr(stats, field), getattr(self._last, field, 0)))
        before = self._last.degradations_total if self._last else []
        for counter, total, last in zip(
            self._degradations, stats.degradations_total, before or repeat(0), strict=False
        ):
            counter.inc(_growth(total, last))
        self._tiers.step(stats.tiers)
        self._last = stats

    def engine_restarted(self) -> None:
        self._restarts.inc()
        self._tiers.engine_restarted()
        self._last = None

    def request_refused(self, kind: ErrorKind) -> None:
        self._refused.labels(*self._labels, kind).inc()

    def request_ended(self, reason: str) -> None:
        self._success.labels(*self._labels, reason).inc()

    def exposition(self) -> bytes:
        """The text format that Prometheus scrapes."""
        return generate_latest(self._registry)


def _growth(total: float, before: float) -> float:
    """How much a total of the engine grew; never negative, whatever the engine says."""
    return max(0.0, total - before)


class SnapshotCollector(Collector):
    """Computes the gauges at each scrape from what `read` gives."""

    def __init__(self, model_name: str, read: Callable[[], Snapshot]) -> None:
        self._model_name = model_name
        self._read = read

    def collect(self) -> Iterable[Metric]:
        return gauges(self._read(), (self._model_name, "0"))
