"""Latency of short requests among long ones, in an open loop: requests arrive at their times whether or not the engine keeps up."""

import statistics
from collections.abc import Sequence

from bench.seeds.driving import arriving, drive
from bench.seeds.figure import Figure, Settings, Target, progress, ratio_text
from bench.seeds.trace import Trace
from bench.workload import SHORT_TOKENS, Request, poisson
from octavo_runtime.engine.core import Engine

Pair = tuple[Trace, Trace]  # static, continuous


def latency(settings: Settings, engine: Engine, work: Sequence[Request], per_s: float, batch: int) -> list[Pair]:
    """Pairs with the same arrivals. Rows of static batches drop out when they are done, which shortens its steps."""
    pairs = []
    for number in range(settings.pairs):
        load = arriving(work, poisson(len(work), per_s, seed=number))
        pairs.append((drive(engine, load, batch), drive(engine, load)))
        progress(f"batching: open loop, pair {number + 1} of {settings.pairs}, {per_s:.1f} requests/s")
    return pairs


def latency_figure(pairs: Sequence[Pair], work: Sequence[Request], load: str) -> Figure:
    short = [str(index) for index, (_, output) in enumerate(work) if output <= SHORT_TOKENS[1]]
    static = [statistics.median(trace.answers[name].latency_s for name in short) for trace, _ in pairs]
    continuous = [statistics.median(trace.answers[name].latency_s for name in short) for _, trace in pairs]
    own_end = [statistics.median(trace.answers[name].own_latency_s for name in short) for trace, _ in pairs]
    ratios = [theirs / ours for theirs, ours in zip(static, continuous, strict=True)]
    kinder = [theirs / ours for theirs, ours in zip(own_end, continuous, strict=True)]
    return Figure(
        "short requests' p50 latency in a mixed load, static / continuous",
        "8 × (3.2 → 0.4 s)",
        Target("≥", 8.0, " ×"),
        statistics.median(ratios),
        f"{ratio_text(ratios)} ({statistics.median(static):.2f} → {statistics.median(continuous):.3f} s)",
        f"{load}; a static batch answers at its end, as generate() does (each row at its own end: {ratio_text(kinder)})",
    )
