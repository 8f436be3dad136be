"""The table at the end of `bench serving`: each engine's medians with their spread, and how many times as fast Octavo is.

A ratio is taken within a round, of runs that stand beside each other there; its median and spread are over the rounds.
"""

import statistics
from collections.abc import Sequence

from bench.serving_result import Field
from bench.serving_rounds import Run

OURS = "octavo"
_NOTHING = "–"


def table(runs: Sequence[Run], requests: int) -> str:
    """Markdown, aligned for a terminal: a row for each engine in the order in which they first ran."""
    heading = (
        "engine",
        f"{requests} requests, tok/s",
        f"{OURS} / it",
        "one stream, tok/s",
        f"{OURS} / it",
        "ready after, s",
    )
    rows = [heading, *(_row(runs, engine) for engine in dict.fromkeys(run.engine for run in runs))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heading))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _row(runs: Sequence[Run], engine: str) -> tuple[str, ...]:
    batch, single, ready = (values(runs, engine, field) for field in ("best_tok_s", "single_tok_s", "ready_s"))
    batch_ratios, single_ratios = (ratios(runs, engine, field) for field in ("best_tok_s", "single_tok_s"))
    return (
        engine,
        spread(batch, 0),
        spread(batch_ratios, 2),
        spread(single, 1),
        spread(single_ratios, 2),
        spread(ready, 1),
    )


def values(runs: Sequence[Run], engine: str, field: Field) -> list[float]:
    """What the engine's runs gave for a field, in order."""
    found = (run.result.value(field) for run in runs if run.engine == engine and run.result is not None)
    return [value for value in found if value is not None]


def ratios(runs: Sequence[Run], engine: str, field: Field) -> list[float]:
    """Octavo's value over the engine's, for each round in which both have one."""
    if engine == OURS:
        return []
    rounds = sorted({run.round for run in runs})
    pairs = [([run for run in runs if run.round == number]) for number in rounds]
    both = [(values(pair, OURS, field), values(pair, engine, field)) for pair in pairs]
    return [ours[0] / theirs[0] for ours, theirs in both if ours and theirs]


def spread(numbers: Sequence[float], digits: int) -> str:
    """`median (least–greatest)`, one number alone as it is."""
    if not numbers:
        return _NOTHING
    middle = f"{statistics.median(numbers):.{digits}f}"
    return middle if len(numbers) == 1 else f"{middle} ({min(numbers):.{digits}f}–{max(numbers):.{digits}f})"


def line(run: Run) -> str:
    """One run, as it is told when it ends."""
    beside = f"load average {run.load:.1f}, others {100 * run.others:.0f} %"
    if run.result is None:
        return f"round {run.round + 1}  {run.engine:<14} FAILED: {run.failure}  ({beside})"
    best, worst, single, ready = (
        _NOTHING if value is None else f"{value:.1f}"
        for value in (run.result.best_tok_s, run.result.worst_tok_s, run.result.single_tok_s, run.result.ready_s)
    )
    rates = f"{best:>7} tok/s (worst {worst:>6}), one stream {single:>6}, ready after {ready:>5} s"
    return f"round {run.round + 1}  {run.engine:<14} {rates}  ({beside})"
