"""The gauges of `/metrics` from one snapshot of what is known. Pure.

A gauge whose source is not known yet (the engine is loading) is absent rather than zero. Those that autoscalers average over the
pods of a service are absent, too, where a pod takes no requests: the zero of one that warms up would halve the mean of two.
"""

import dataclasses
import statistics
from collections import deque
from collections.abc import Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

import octavo_runtime
from octavo_runtime.heartbeat import PHASES, Phase
from octavo_runtime.messages import EngineInfo, Stats
from octavo_runtime.server.tier_metrics import tier_gauges

VOLATILITY_WINDOW_S = 60
# vLLM's name, and the one before it, which endpoint pickers up to 1.2 read unless told otherwise.
KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
COUNTS = (  # gauge, the field of `Stats` it shows, what it is
    ("vllm:num_requests_running", "running", "Sequences in the running batch; a request with n choices runs as n."),
    ("vllm:num_requests_waiting", "waiting", "Requests waiting for a place in the batch."),
    ("octavo_max_num_seqs", "max_num_seqs", "Sequences that may run at once now; halved while most prompts are long."),
    ("octavo_max_num_batched_tokens", "max_num_batched_tokens", "Tokens that a step may have now."),
    ("octavo_kv_cached_blocks", "blocks_cached", "KV blocks that no live request uses and that can still be found."),
    (
        "octavo_pressure_level",
        "pressure_level",
        "Level of the memory ladder, 0 (normal) to 7 (new requests are refused).",
    ),
    (
        "octavo_predicted_peak_blocks",
        "predicted_peak_blocks",
        "KV blocks that the running sequences are predicted to need.",
    ),
)
SCALING_PHASES = ("ready", "pressured")
SCALING = (  # as COUNTS; only in the phases above
    ("octavo_requests_waiting", "waiting", "Requests waiting for a place in the batch, for autoscalers."),
    (
        "octavo_predicted_deficit_blocks",
        "predicted_deficit_blocks",
        "KV blocks that running and waiting sequences are predicted to lack at their peak, for autoscalers.",
    ),
)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    phase: Phase
    stats: Stats | None
    info: EngineInfo | None
    kv_available_volatility: float | None


class Availability:
    """Samples (free + cached) / total blocks once a second and gives the standard deviation over the last minute."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=VOLATILITY_WINDOW_S)

    def sample(self, stats: Stats | None) -> None:
        if stats is not None and stats.blocks_total:
            self._samples.append(1.0 - stats.blocks_used / stats.blocks_total)

    def volatility(self) -> float | None:
        samples = list(self._samples)
        return statistics.pstdev(samples) if samples else None


def gauges(snapshot: Snapshot, labels: tuple[str, str]) -> Iterator[Metric]:
    """`labels`: the values of model_name and engine."""
    yield _phases(snapshot.phase, labels)
    if snapshot.info is not None:
        yield _cache_config(snapshot.info, labels)
        yield _information(snapshot.info, labels)
    if snapshot.kv_available_volatility is not None:
        text = f"Standard deviation of (free + cached) / all blocks over {VOLATILITY_WINDOW_S} s."
        yield _gauge("octavo_kv_available_volatility", text, snapshot.kv_available_volatility, labels)
    if snapshot.stats is not None:
        yield from _from_stats(snapshot.stats, snapshot.info, labels)
        if snapshot.phase in SCALING_PHASES:
            yield from _scaling(snapshot.stats, labels)


def _from_stats(stats: Stats, info: EngineInfo | None, labels: tuple[str, str]) -> Iterator[Metric]:
    for name in KV_USAGE:
        yield _gauge(name, "KV blocks in use by live requests / all, 0 to 1.", _used(stats), labels)
    for name, field, text in COUNTS:
        yield _gauge(name, text, getattr(stats, field), labels)
    yield from tier_gauges(stats.tiers, labels)
    if info is not None:
        text = "Slots filled / slots of the blocks in use; 1 when no block is in use."
        yield _gauge("octavo_kv_slot_utilization", text, _slot_utilization(stats, info.block_size), labels)


def _scaling(stats: Stats, labels: tuple[str, str]) -> Iterator[Metric]:
    text = "KV blocks in use by live requests / all, 0 to 1, for autoscalers."
    yield _gauge("octavo_kv_block_utilization", text, _used(stats), labels)
    for name, field, text in SCALING:
        yield _gauge(name, text, getattr(stats, field), labels)


def _used(stats: Stats) -> float:
    return stats.blocks_used / stats.blocks_total if stats.blocks_total else 0.0


def _slot_utilization(stats: Stats, block_size: int) -> float:
    slots = stats.blocks_used * block_size
    return stats.slots_filled / slots if slots else 1.0


def _phases(phase: Phase, labels: tuple[str, str]) -> Metric:
    family = GaugeMetricFamily(
        "octavo_phase", "1 for the phase the runtime is in.", labels=("model_name", "engine", "phase")
    )
    for name in PHASES:
        family.add_metric((*labels, name), float(name == phase))
    return family


def _cache_config(info: EngineInfo, labels: tuple[str, str]) -> Metric:
    names = ("model_name", "engine", "block_size", "num_gpu_blocks")
    family = GaugeMetricFamily("vllm:cache_config_info", "The KV cache's configuration, in its labels.", labels=names)
    family.add_metric((*labels, str(info.block_size), str(info.num_blocks)), 1.0)
    return family


def _information(info: EngineInfo, labels: tuple[str, str]) -> Metric:
    names = ("model_name", "engine", "version", "device", "dtype", "compute")
    text = (
        "What computes, in its labels: compute is cpu-<tier> for the CPU kernels, torch where none run, triton on GPUs."
    )
    family = GaugeMetricFamily("octavo_info", text, labels=names)
    family.add_metric((*labels, octavo_runtime.__version__, info.device, info.dtype, info.compute), 1.0)
    return family


def _gauge(name: str, text: str, value: float, labels: tuple[str, str]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=("model_name", "engine"))
    family.add_metric(labels, value)
    return family
