"""A burst of ten times what the KV pool holds, with the memory ladder and without: level, blocks, latency, refusals.

    octavo bench ladder [--pools 10] [--plot out.png] [--model PATH | --tiny] [--kv-cache-memory 24Mi]
    python -m bench.ladder …                                            the same

Both are real servers over HTTP. A hundred short requests come first, so that the server knows how long outputs are; then the burst
arrives within two seconds: one request in ten generates ten times as much as those. A client that gets 503 comes back after the
time that it was told, five seconds at most; latency counts from the first time that it asked. Exit code 1 if a request was lost.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.ladder_burst import Burst, burst, ordinary, run
from bench.ladder_plot import draw
from bench.machine import machine
from bench.seeds.picture import can_draw
from bench.serving_run import positive
from tests.runtime.models import smollm2_path
from tests.runtime.server.running import RunningServer, running_server
from tests.runtime.server.tiny_model import save_tiny_chat_model

MODEL = "tiny"  # what the server calls it
LEARNT_FROM = 100
AT_ONCE = 16  # of these: the pool suffices for them
MAX_NUM_SEQS = 128  # more than pages suffice for, so that these are what is short


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if parsed.plot and not can_draw():
        parser.error("--plot needs matplotlib: `make setup` installs it with the development dependencies")
    with tempfile.TemporaryDirectory(prefix="octavo-bench-") as folder:
        model = save_tiny_chat_model(Path(folder)) if parsed.tiny else parsed.model
        print(f"{'a seeded tiny model' if parsed.tiny else model} on {machine()}", flush=True)
        return _compared(model, parsed)


def _compared(model: Path, parsed: argparse.Namespace) -> int:
    runs: list[tuple[str, Burst]] = []
    blocks = 0
    for name, ladder in (("with the ladder", "--memory-ladder"), ("without", "--no-memory-ladder")):
        flags = [ladder, "--kv-cache-memory", parsed.kv_cache_memory]
        flags += ["--max-num-seqs", str(MAX_NUM_SEQS), "--max-num-batched-tokens", "256"]
        with (
            tempfile.TemporaryDirectory(prefix="octavo-bench-") as folder,
            running_server(model, Path(folder), *flags) as server,
        ):
            config = server.state()["config"]
            blocks = config["num_blocks"]
            capacity_tokens = blocks * config["block_size"]
            runs.append((name, _measured(server, capacity_tokens, config["vocab_size"], parsed)))
        print(f"{name}: {len(runs[-1][1].got)} requests in {runs[-1][1].wall_s:.1f} s", flush=True)
    print(f"\n{table(runs)}")
    if parsed.plot:
        draw(runs, blocks, parsed.plot)
        print(f"picture: {parsed.plot}")
    lost = [f"{name}: {one.wrong}" for name, each in runs for one in each.got if one.wrong]
    print("\n".join(["", *lost] if lost else ["", "no request was lost"]))
    return 1 if lost else 0


def _measured(server: RunningServer, capacity_tokens: int, vocab_size: int, parsed: argparse.Namespace) -> Burst:
    learnt = ordinary(capacity_tokens, LEARNT_FROM, vocab_size, parsed.seed)
    for begin in range(0, len(learnt), AT_ONCE):
        asyncio.run(run(server, MODEL, learnt[begin : begin + AT_ONCE], settle=False))
    return asyncio.run(run(server, MODEL, burst(capacity_tokens, parsed.pools, vocab_size, parsed.seed), settle=True))


def table(runs: Sequence[tuple[str, Burst]]) -> str:
    """One column for each run."""
    rows = [("", *(name for name, _ in runs))]
    columns = [_figures(each) for _, each in runs]
    rows += [(name, *(column[name] for column in columns)) for name in columns[0]]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _figures(each: Burst) -> dict[str, str]:
    ended = [one for one in each.got if one.ended_s is not None]
    latencies = sorted(one.latency_s for one in ended) or [0.0]
    waits = sorted(one.first_s - one.wanted.arrives_s for one in ended if one.first_s is not None) or [0.0]
    levels = [sample.values["level"] for sample in each.samples]
    tokens = sum(one.tokens for one in ended)
    refusals = sum(len(one.refused_s) for one in each.got)
    return {
        "requests answered / asked": f"{len(ended)} / {len(each.got)}",
        "of these capped in length": f"{sum(one.capped for one in ended)}",
        "refusals (503, to come back)": f"{refusals}",
        "highest level": f"{max(levels):.0f}",
        "back at level 0 after the last answer": f"{each.samples[-1].at_s - each.wall_s:.1f} s" if max(levels) else "–",
        "preemptions": f"{each.last('preemptions'):.0f}",
        "of these ahead of need": f"{each.last('ahead'):.0f}",
        "tokens generated": f"{tokens:,}",
        "last answer after": f"{each.wall_s:.1f} s",
        "tokens a second": f"{tokens / each.wall_s if each.wall_s else 0.0:.0f}",
        "first token, median": f"{statistics.median(waits):.2f} s",
        "first token, 95 %": f"{_share(waits, 0.95):.2f} s",
        "latency, median": f"{statistics.median(latencies):.2f} s",
        "latency, 95 %": f"{_share(latencies, 0.95):.2f} s",
        "latency, longest": f"{latencies[-1]:.2f} s",
    }


def _share(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ladder", description="Overwhelm a server with and without the memory ladder."
    )
    parser.add_argument(
        "--model", type=Path, default=smollm2_path(), help="GGUF file or model folder (default: SmolLM2-135M)"
    )
    parser.add_argument("--tiny", action="store_true", help="a seeded tiny model instead: steps of milliseconds")
    parser.add_argument(
        "--pools", type=positive, default=10, help="size of the burst, in pools full of work (default: 10)"
    )
    parser.add_argument("--kv-cache-memory", default="24Mi", help="memory for KV pages (default: 24Mi)")
    parser.add_argument("--seed", type=int, default=0, help="of the burst (default: 0)")
    parser.add_argument("--plot", type=Path, help="write a picture of both runs to this PNG")
    return parser


if __name__ == "__main__":
    sys.exit(main())
