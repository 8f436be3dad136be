"""Bursts of ten times what the KV pool holds, with the memory ladder and without: level, blocks, latency, refusals.

    octavo bench ladder [--pools 10] [--rounds 2] [--plot out.png] [--model PATH | --tiny] [--kv-cache-memory 20Mi]
    python -m bench.ladder …                                            the same

Both are real servers over HTTP, side by side, one of them idle. A hundred short requests come first, so that the server knows how
long outputs are; then a burst arrives within two seconds: one request in ten generates ten times as much as those. Both get the
same bursts, in turns: with, without, without, with. A client that gets 503 comes back after the time that it was told, five seconds
at most; latency counts from the first time that it asked. Exit code 1 if a request was lost.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.ladder_burst import Burst, Got, burst, ordinary, run
from bench.ladder_plot import draw
from bench.machine import machine
from bench.occupancy import Occupancy
from bench.seeds.picture import can_draw
from bench.serving_run import positive
from tests.runtime.models import smollm2_path
from tests.runtime.server.running import RunningServer, running_server
from tests.runtime.server.tiny_model import save_tiny_chat_model

MODEL = "tiny"  # what the server calls it
LEARNT_FROM = 100
AT_ONCE = 16  # of these: the pool suffices for them
MAX_NUM_SEQS = 128  # more than pages suffice for, so that these are what is short
WITH, WITHOUT = "with the ladder", "without"


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
    bursts: dict[str, list[Burst]] = {WITH: [], WITHOUT: []}
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(_Served(model, name == WITH, parsed)) for name in bursts}
        for number in range(parsed.rounds):
            for name in servers if number % 2 == 0 else reversed(servers):
                bursts[name].append(servers[name].burst(parsed.seed + number))
                print(f"{name}: {_told(bursts[name][-1])}", flush=True)
        blocks = servers[WITH].blocks
    print(f"\n{table(bursts)}")
    if parsed.plot:
        draw([(name, each[0]) for name, each in bursts.items()], blocks, parsed.plot)
        print(f"picture of the first round: {parsed.plot}")
    lost = [f"{name}: {one.wrong}" for name, each in bursts.items() for one in _answers(each) if one.wrong]
    print("\n".join(["", *lost] if lost else ["", "no request was lost"]))
    return 1 if lost else 0


class _Served(contextlib.AbstractContextManager["_Served"]):
    """A server that has learnt how long outputs are."""

    def __init__(self, model: Path, ladder: bool, parsed: argparse.Namespace) -> None:
        flags = ["--memory-ladder" if ladder else "--no-memory-ladder", "--kv-cache-memory", parsed.kv_cache_memory]
        flags += ["--max-num-seqs", str(MAX_NUM_SEQS), "--max-num-batched-tokens", "256"]
        self._parsed = parsed
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="octavo-bench-"))
            self._server: RunningServer = stack.enter_context(running_server(model, Path(folder), *flags))
            config = self._server.state()["config"]
            self.blocks: int = config["num_blocks"]
            self._capacity_tokens = self.blocks * config["block_size"]
            self._vocab_size = config["vocab_size"]
            learnt = ordinary(self._capacity_tokens, LEARNT_FROM, self._vocab_size, parsed.seed)
            for begin in range(0, len(learnt), AT_ONCE):
                asyncio.run(run(self._server, MODEL, learnt[begin : begin + AT_ONCE], settle=False))
            self._stack = stack.pop_all()

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def burst(self, seed: int) -> Burst:
        wanted = burst(self._capacity_tokens, self._parsed.pools, self._vocab_size, seed)
        occupancy = Occupancy([self._server.process.pid])
        found = asyncio.run(run(self._server, MODEL, wanted, settle=True))
        found.others = occupancy.others()
        return found


def _told(each: Burst) -> str:
    return f"{len(each.got)} requests in {each.wall_s:.1f} s, others took {100 * each.others:.0f} % of the CPUs"


def _answers(bursts: Sequence[Burst]) -> list[Got]:
    return [one for each in bursts for one in each.got]


def table(runs: Mapping[str, Sequence[Burst]]) -> str:
    """One column for each server, of all its bursts together."""
    rows = [("", *runs)]
    columns = [_figures(bursts) for bursts in runs.values()]
    rows += [(name, *(column[name] for column in columns)) for name in columns[0]]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _figures(bursts: Sequence[Burst]) -> dict[str, str]:
    answers = _answers(bursts)
    ended = [one for one in answers if one.ended_s is not None]
    latencies = sorted(one.latency_s for one in ended) or [0.0]
    waits = sorted(one.first_s - one.wanted.arrives_s for one in ended if one.first_s is not None) or [0.0]
    level = max(sample.values["level"] for each in bursts for sample in each.samples)
    tokens, wall_s = sum(one.tokens for one in ended), sum(each.wall_s for each in bursts)
    back_s = max(each.samples[-1].at_s - each.wall_s for each in bursts)
    return {
        "requests answered / asked": f"{len(ended)} / {len(answers)}",
        "of these capped in length": f"{sum(one.capped for one in ended)}",
        "refusals (503, to come back)": f"{sum(len(one.refused_s) for one in answers)}",
        "highest level": f"{level:.0f}",
        "back at level 0 after the last answer": f"{back_s:.1f} s" if level else "–",
        "preemptions": f"{sum(each.counted('preemptions') for each in bursts):.0f}",
        "of these ahead of need": f"{sum(each.counted('ahead') for each in bursts):.0f}",
        "tokens generated": f"{tokens:,}",
        "last answer of a burst after": f"{wall_s / len(bursts):.1f} s",
        "tokens a second": f"{tokens / wall_s if wall_s else 0.0:.0f}",
        "first token, median": f"{statistics.median(waits):.2f} s",
        "first token, 95 %": f"{_share(waits, 0.95):.2f} s",
        "latency, median": f"{statistics.median(latencies):.2f} s",
        "latency, mean": f"{statistics.mean(latencies):.2f} s",
        "latency, 95 %": f"{_share(latencies, 0.95):.2f} s",
        "latency, longest": f"{latencies[-1]:.2f} s",
        "others took of the CPUs": f"{100 * max(each.others for each in bursts):.0f} %",
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
    parser.add_argument("--rounds", type=positive, default=2, help="bursts that each server gets (default: 2)")
    parser.add_argument("--kv-cache-memory", default="20Mi", help="memory for KV pages (default: 20Mi)")
    parser.add_argument("--seed", type=int, default=0, help="of the first burst (default: 0)")
    parser.add_argument("--plot", type=Path, help="write a picture of the first round to this PNG")
    return parser


if __name__ == "__main__":
    sys.exit(main())
