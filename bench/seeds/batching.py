"""Continuous against static batching on the same engine, with the long tail of answers that static batches wait for.

A static batch here is kind to its kind: rows that are done are not computed further. transformers' `generate`, which pads them to
the end, runs beside it.
"""

import statistics

from bench.seeds.arithmetic import busy_share, mean, percentile, static_steps
from bench.seeds.figure import Figure, Settings, Target, progress
from bench.seeds.models import VOCAB_SIZE, engine_of, serving_model
from bench.seeds.trace import Trace, arriving, at_once, drive
from bench.static_batches import reference_model, static_rate
from bench.workload import Request, long_tail, poisson
from octavo_runtime.engine.core import Engine

REQUESTS, BATCH = 64, 16
SHORT_TOKENS = 32
LOAD_OF_STATIC = 0.7  # arrivals, as a share of what static batches serve when always full: a load that both sustain
_KV_BYTES = 512 << 20


def batching(settings: Settings) -> list[Figure]:
    # No prefix cache: a pair runs the same prompts twice.
    llm = engine_of(
        serving_model(settings), kv_cache_memory=_KV_BYTES, max_model_len=1024, max_num_seqs=BATCH, prefix_caching=False
    )
    work = long_tail(settings.count(REQUESTS), VOCAB_SIZE)
    model = f"{settings.model.name if settings.model else 'seeded 4-layer Llama'}, {BATCH} rows, {settings.pairs} pairs"
    full = _throughput(settings, llm.engine, work)
    static_requests_per_s = len(work) / statistics.median(static.wall_s for _, static, _ in full)
    mixed = _latency(settings, llm.engine, work, LOAD_OF_STATIC * static_requests_per_s)
    return [*_throughput_figures(full, work, model), *_latency_figures(mixed, work), _busy(full)]


def _throughput(settings: Settings, engine: Engine, work: list[Request]) -> list[tuple[Trace, Trace, float]]:
    """Pairs: continuous, static, and the rate of transformers."""
    reference = reference_model(serving_model(settings), "float32")
    runs = []
    for pair in range(settings.pairs):
        continuous, static = drive(engine, at_once(work)), drive(engine, at_once(work), BATCH)
        runs.append((continuous, static, static_rate(reference, work, BATCH)))
        progress(
            f"batching: pair {pair + 1}: {continuous.rate:.0f} tokens/s continuous, {static.rate:.0f} static, "
            f"{runs[-1][2]:.0f} transformers"
        )
    return runs


def _latency(settings: Settings, engine: Engine, work: list[Request], per_s: float) -> list[tuple[Trace, Trace]]:
    runs = []
    for pair in range(settings.pairs):
        times_s = poisson(len(work), per_s, seed=pair)
        runs.append((drive(engine, arriving(work, times_s)), drive(engine, arriving(work, times_s), BATCH)))
        progress(f"batching: open loop, pair {pair + 1} of {settings.pairs}, {per_s:.1f} requests/s")
    return runs


def _throughput_figures(runs: list[tuple[Trace, Trace, float]], work: list[Request], model: str) -> list[Figure]:
    ours = [continuous.rate / static.rate for continuous, static, _ in runs]
    theirs = [continuous.rate / rate for continuous, _, rate in runs]
    steps = static_steps([output for _, output in work], BATCH)
    return [
        Figure(
            "throughput, continuous / static batches, same engine",
            "7.4 × (1,200 → 8,900 tokens/s)",
            None,
            statistics.median(ours),
            _ratios(ours),
            f"{model}; {len(work)} requests at once, 85 % 8–32 and 15 % 256–512 tokens out; {len(runs[0][0].steps):,} steps "
            f"against {len(runs[0][1].steps):,} ({steps:,} of them decodes)",
        ),
        Figure(
            "throughput, continuous / transformers' generate",
            "–",
            None,
            statistics.median(theirs),
            _ratios(theirs),
            f"the same requests, left-padded batches of {BATCH}, rows padded to the longest answer",
        ),
    ]


def _latency_figures(runs: list[tuple[Trace, Trace]], work: list[Request]) -> list[Figure]:
    short = [str(index) for index, (_, output) in enumerate(work) if output <= SHORT_TOKENS]

    def median_s(trace: Trace) -> float:
        return percentile([trace.answers[name].latency_s for name in short], 50)

    def streamed_s(trace: Trace) -> float:
        return percentile([trace.answers[name].finished_s - trace.answers[name].arrived_s for name in short], 50)

    ratios = [median_s(static) / median_s(continuous) for continuous, static in runs]
    streamed = statistics.median(streamed_s(static) / streamed_s(continuous) for continuous, static in runs)
    times = [statistics.median(median_s(pair[side]) for pair in runs) for side in (1, 0)]
    return [
        Figure(
            "short requests' p50 latency in a mixed load, static / continuous",
            "8 × (3.2 → 0.4 s)",
            Target("≥", 8.0, " ×"),
            statistics.median(ratios),
            f"{_ratios(ratios)} ({times[0]:.2f} → {times[1]:.3f} s)",
            f"Poisson arrivals at {LOAD_OF_STATIC:.0%} of what full static batches serve; a batch answers at its end, as "
            f"generate() does (each row at its own end: {streamed:.1f} ×)",
        )
    ]


def _busy(runs: list[tuple[Trace, Trace, float]]) -> Figure:
    shares = [100 * busy_share(continuous.steps) for continuous, _, _ in runs]
    rows = mean([stats.batch_size for stats in runs[0][0].while_waiting()]) / BATCH
    static_rows = mean([step.stats.batch_size for step in runs[0][1].steps]) / BATCH
    return Figure(
        "engine busy while work waits (step in flight / wall)",
        "35 → 92 % GPU activity",
        Target("≥", 95.0, " %"),
        statistics.median(shares),
        f"{statistics.median(shares):.1f} %",
        f"continuous, median of {len(runs)} runs; rows of the batch at work {rows:.0%}, in static batches {static_rows:.0%}",
    )


def _ratios(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.1f} × ({min(ratios):.1f}–{max(ratios):.1f})"
