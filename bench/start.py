"""From the start of the process to ready and to the first token, split by phase: cold, warm and preloaded, beside transformers.

    octavo bench start [--model PATH] [--rounds 3] [--only NAME …]
    python -m bench.start …                                   the same

`first`: the model is in the page cache, no packed weights are kept yet, and they are written meanwhile. `cold`: packed weights are
there, but their file and the model's were dropped from the page cache. `warm`: all of it in the page cache. `preloaded`: dropped,
while `octavo preload` holds the packed weights. transformers loads the same model, cold and warm, and generates one token.

Libraries stay in the page cache throughout. Every round runs each once, every other round in the opposite order; figures are
medians in seconds.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.machine import machine
from bench.start_octavo import pack, preloading, serve_once
from bench.start_transformers import load_once
from tests.runtime.models import smollm2_path

Phases = dict[str, float]  # name → when it ended, seconds from the process's start
PHASES = ("imports", "weights and KV", "warm-up", "ready", "first token")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="octavo bench start", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--model", type=Path, default=smollm2_path(), help="GGUF file or folder (default: SmolLM2-135M, Q4_1)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of all (default: 3)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of the rows, by the words before the comma")
    parsed = parser.parse_args(arguments)
    if parsed.rounds < 1:
        parser.error(f"--rounds {parsed.rounds}: give at least 1")
    print(f"{parsed.model} on {machine()}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="octavo-start-", dir=Path.home()) as folder:
        rows = _rows(parsed.model, Path(folder))
        wanted = parsed.only or list(rows)
        if unknown := set(wanted) - set(rows):
            parser.error(f"--only {' '.join(sorted(unknown))}: choose from {', '.join(rows)}")
        print(table(_measured({name: rows[name] for name in wanted}, parsed.rounds)))
    return 0


def _rows(model: Path, folder: Path) -> dict[str, Callable[[], Phases]]:
    cache = folder / "weights"

    def first() -> Phases:
        with tempfile.TemporaryDirectory(dir=folder) as empty:
            return serve_once(model, Path(empty), cold=False)

    def packed(cold: bool) -> Phases:
        pack(model, cache)
        return serve_once(model, cache, cold)

    def preloaded() -> Phases:
        with preloading(model, cache):
            return serve_once(model, cache, cold=True)

    return {
        "first": first,
        "cold": lambda: packed(cold=True),
        "warm": lambda: packed(cold=False),
        "preloaded": preloaded,
        "transformers-cold": lambda: load_once(model, cold=True),
        "transformers-warm": lambda: load_once(model, cold=False),
    }


def _measured(rows: dict[str, Callable[[], Phases]], rounds: int) -> dict[str, list[Phases]]:
    runs: dict[str, list[Phases]] = {name: [] for name in rows}
    for number in range(rounds):
        for name in rows if number % 2 == 0 else reversed(rows):
            runs[name].append(rows[name]())
            print(f"round {number + 1}: {name}: first token after {runs[name][-1][PHASES[-1]]:.2f} s", file=sys.stderr)
    return runs


def table(runs: dict[str, list[Phases]]) -> str:
    """Markdown: what each phase took, then when it was ready and had its first token, with the least and the most."""
    lines = [
        "| start | imports | weights and KV | warm-up | API | ready after | first token after |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, of in runs.items():
        cells = [_cell(of, phase) for phase in PHASES[:4]]
        lines.append(f"| {name} | {' | '.join(cells)} | {_spread(of, 'ready')} | {_spread(of, 'first token')} |")
    return "\n".join(lines)


def _cell(runs: list[Phases], phase: str) -> str:
    """How long the phase took; a dash where there is none."""
    before = PHASES[: PHASES.index(phase)][-1:]
    if any(name not in run for name in (phase, *before) for run in runs):
        return "–"
    return f"{statistics.median(run[phase] - sum(run[name] for name in before) for run in runs):.2f}"


def _spread(runs: list[Phases], phase: str) -> str:
    times = [run[phase] for run in runs if phase in run]
    return f"{statistics.median(times):.2f} ({min(times):.2f}–{max(times):.2f})" if times else "–"


if __name__ == "__main__":
    sys.exit(main())
