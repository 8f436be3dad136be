"""Output tokens a second with all requests submitted at once: continuous, in static batches, by transformers.

A static batch keeps its shape, as in transformers' `generate`: each row is computed until the longest answer is done, and what
goes beyond a row's own answer counts for nothing. A kinder one, whose rows drop out when they are done, runs beside it.
"""

import dataclasses
import statistics
from collections.abc import Sequence

from bench.seeds.arithmetic import busy_share, mean, padded_outputs
from bench.seeds.driving import at_once, drive
from bench.seeds.figure import Figure, Settings, Target, progress, ratio_text
from bench.seeds.models import serving_model
from bench.seeds.trace import Trace
from bench.static_batches import reference_model, static_rate
from bench.workload import LONG_SHARE, LONG_TOKENS, SHORT_TOKENS, Request
from octavo_runtime.engine.core import Engine


@dataclasses.dataclass(frozen=True)
class Round:
    """The ways to run the same requests, one after another."""

    continuous: Trace
    padded: Trace
    dropping: Trace
    padded_rate: float  # of the tokens that were asked for
    transformers_rate: float


def throughput(settings: Settings, engine: Engine, work: Sequence[Request], batch: int) -> list[Round]:
    reference = reference_model(serving_model(settings), "float32")
    outputs = padded_outputs([output for _, output in work], batch)
    padded_work = [(prompt, output) for (prompt, _), output in zip(work, outputs, strict=True)]
    rounds = []
    for number in range(settings.pairs):
        continuous, padded = drive(engine, at_once(work)), drive(engine, at_once(padded_work), batch)
        dropping, rate = drive(engine, at_once(work), batch), static_rate(reference, work, batch)
        rounds.append(Round(continuous, padded, dropping, continuous.tokens / padded.wall_s, rate))
        progress(
            f"batching: round {number + 1} of {settings.pairs}: {continuous.rate:.0f} tokens/s continuous, "
            f"{rounds[-1].padded_rate:.0f} static, {dropping.rate:.0f} static without done rows, {rate:.0f} transformers"
        )
    return rounds


def throughput_figures(rounds: Sequence[Round], work: Sequence[Request], batch: int, model: str) -> list[Figure]:
    padded = [each.continuous.rate / each.padded_rate for each in rounds]
    dropping = [each.continuous.rate / each.dropping.rate for each in rounds]
    theirs = [each.continuous.rate / each.transformers_rate for each in rounds]
    steps = [len(trace.steps) for trace in (rounds[0].padded, rounds[0].continuous)]
    return [
        Figure(
            "throughput, continuous / static batches, same engine",
            "7.4 × (1,200 → 8,900 tokens/s)",
            None,
            statistics.median(padded),
            ratio_text(padded),
            f"{model}, {len(work)} requests at once, {tail_text()}, {batch} rows; "
            f"{steps[0]:,} → {steps[1]:,} steps; against batches whose done rows drop out {ratio_text(dropping)}",
        ),
        Figure(
            "throughput, continuous / transformers' generate",
            "–",
            None,
            statistics.median(theirs),
            ratio_text(theirs),
            f"the same requests, left-padded batches of {batch}",
        ),
    ]


def tail_text() -> str:
    (short, to_short), (long, to_long) = SHORT_TOKENS, LONG_TOKENS
    return f"{1 - LONG_SHARE:.0%} {short}–{to_short} and {LONG_SHARE:.0%} {long}–{to_long} tokens out"


def busy_figure(rounds: Sequence[Round], batch: int) -> Figure:
    value = statistics.median(100 * busy_share(each.continuous.steps) for each in rounds)
    rows = mean([stats.batch_size for stats in rounds[0].continuous.while_waiting()]) / batch
    static_rows = mean([step.stats.batch_size for step in rounds[0].dropping.steps]) / batch
    return Figure(
        "engine busy while work waits (step in flight / wall)",
        "35 → 92 % GPU activity",
        Target("≥", 95.0, " %"),
        value,
        f"{value:.1f} %",
        f"continuous; rows of the batch that compute what was asked for: {rows:.0%}, in static batches {static_rows:.0%}",
    )
