"""Chats whose history is larger than the KV pool, without tiers below it, with memory, with memory and disk, and after a restart.

    octavo bench tiers [--model PATH] [--sessions N] [--turns N] …
    python -m bench.tiers …                                            the same

Every run serves the same sessions, greedy, on an engine of its own whose pool holds a part of their history. Hit rate: prompt
tokens of later turns that were not computed again. Recomputed: tokens of earlier turns that were. Times are to the first token, of
turns after the first.
"""

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import octavo_runtime
from bench.arguments import positive
from bench.machine import machine
from bench.seeds.figure import progress
from bench.tiers_sessions import Shape, Turn, converse
from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.llm import LLM
from octavo_runtime.messages import TierStats
from tests.runtime.models import smollm2_path

POOL_SHARE = 3  # the pool holds so much less than the history
MEMORY_SHARE = 4  # and the memory tier with a disk below it
_ROOMY = 2  # a tier for all of the history, with room for what is cut off at pages' ends


@dataclasses.dataclass(frozen=True)
class Run:
    """One row: turns after the first, and the tiers at the end."""

    name: str
    turns: list[list[Turn]]
    wall_s: float
    tiers: list[TierStats]

    @property
    def answers(self) -> list[list[int]]:
        return [turn.tokens for turns in self.turns for turn in turns]


@dataclasses.dataclass(frozen=True)
class Bench:
    model: Path
    shape: Shape
    token_bytes: int
    folder: Path

    @property
    def history_bytes(self) -> int:
        return self.shape.history_tokens * self.token_bytes

    def engine(self, memory_bytes: int | None = None, disk: str | None = None) -> LLM:
        """`disk`: the name of a folder for it."""
        return LLM(
            ServeConfig(
                str(self.model),
                max_num_seqs=self.shape.at_once,
                kv_cache_memory=self.history_bytes // POOL_SHARE,
                kv_tier_memory=memory_bytes,
                kv_tier_disk=str(self.folder / disk) if disk else None,
            )
        )

    def run(self, name: str, memory_bytes: int | None = None, disk: str | None = None) -> Run:
        """All turns of all sessions; the first, which finds nothing anywhere, is not part of the figures."""
        llm = self.engine(memory_bytes, disk)
        first, *later = range(self.shape.turns)
        before = next(converse(llm.engine, self.shape, [first]))
        started_s = time.monotonic()
        turns = list(converse(llm.engine, self.shape, later, before))
        run = Run(name, turns, time.monotonic() - started_s, llm.engine.tier_stats())
        llm.engine.close()
        return run

    def run_restarted(self, name: str, memory_bytes: int) -> Run:
        """The last turn alone, by an engine that finds the disk as another one left it after the turns before."""
        llm = self.engine(memory_bytes, disk="restarted")
        *_, before = converse(llm.engine, self.shape, range(self.shape.turns - 1))
        _rest(llm.engine)
        llm.engine.close()
        llm = self.engine(memory_bytes, disk="restarted")
        started_s = time.monotonic()
        turns = list(converse(llm.engine, self.shape, [self.shape.turns - 1], before))
        run = Run(name, turns, time.monotonic() - started_s, llm.engine.tier_stats())
        llm.engine.close()
        return run


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    shape = Shape(parsed.sessions, parsed.turns, parsed.asked, parsed.answered, parsed.at_once, vocab_size=256)
    progress(f"octavo {octavo_runtime.__version__} on {machine()}")
    with tempfile.TemporaryDirectory(prefix="octavo-bench-") as folder:
        bench = Bench(parsed.model, shape, _token_bytes(parsed.model), Path(folder))
        progress(
            f"{shape.sessions} sessions of {shape.turns} turns of {shape.asked} + {shape.answered} tokens, {shape.at_once} at "
            f"once: {shape.history_tokens:,} tokens, {bench.history_bytes / 2**20:.0f} MiB of keys and values; the pool holds 1 / "
            f"{POOL_SHARE} of it"
        )
        runs = _runs(bench)
    print("\n".join(table(runs)))
    return 0


def _runs(bench: Bench) -> list[Run]:
    all_of_it, part = _ROOMY * bench.history_bytes, bench.history_bytes // MEMORY_SHARE
    runs = [bench.run("none")]
    runs.append(bench.run("memory", all_of_it))
    runs.append(bench.run("memory for a quarter, disk", part, disk="disk"))
    runs.append(bench.run_restarted("the same, restarted before the last turn", part))
    return runs


def _rest(engine: Engine) -> None:
    """As an engine does that waits for requests: it writes what it has to the disk."""
    before, written = None, [0]
    while written != before:
        engine.step()
        time.sleep(0.5)
        before, written = written, [tier.written_bytes_total for tier in engine.tier_stats()]


def table(runs: Sequence[Run]) -> list[str]:
    """Markdown."""
    lines = [
        "| tiers | hit rate | recomputed | first token p50 | p95 | seconds for all | blocks from memory, disk | same answers |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        turns = [turn for turns in run.turns for turn in turns]
        times_s = sorted(turn.first_token_s or 0.0 for turn in turns)
        found = sum(turn.cached for turn in turns) / sum(len(turn.prompt) for turn in turns)
        want = runs[0].answers[-len(turns) :]
        same = sum(one == other for one, other in zip(run.answers, want, strict=True))
        hits = ", ".join(str(tier.hits_total) for tier in run.tiers) or "–"
        cells = [
            run.name,
            f"{100 * found:.1f} %",
            f"{sum(turn.recomputed for turn in turns):,}",
            f"{1e3 * statistics.median(times_s):.0f} ms",
            f"{1e3 * times_s[int(0.95 * (len(times_s) - 1))]:.0f} ms",
            f"{run.wall_s:.1f}",
            hits,
            f"{same} of {len(turns)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _token_bytes(model: Path) -> int:
    """Keys and values of one token, over all layers: as the engine's own pool has it."""
    llm = LLM(ServeConfig(str(model), max_num_seqs=1, kv_cache_memory=16 << 20))
    info = llm.engine.info
    llm.engine.close()
    return info.kv_cache_bytes // ((info.num_blocks + 1) * info.block_size)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="octavo bench tiers", description=__doc__.splitlines()[0] if __doc__ else None, allow_abbrev=False
    )
    parser.add_argument("--model", type=Path, default=smollm2_path(), help="default: SmolLM2-135M")
    parser.add_argument("--sessions", type=positive, default=8, help="chats (default: 8)")
    parser.add_argument("--turns", type=_several, default=4, help="of each, at least 3 (default: 4)")
    parser.add_argument("--asked", type=positive, default=160, help="new prompt tokens a turn (default: 160)")
    parser.add_argument("--answered", type=positive, default=16, help="tokens of an answer (default: 16)")
    parser.add_argument("--at-once", type=positive, default=2, help="sessions served together (default: 2)")
    return parser


def _several(text: str) -> int:
    value = int(text)
    if value < 3:
        raise argparse.ArgumentTypeError(f"'{text}' is fewer than 3 turns: the last two are compared")
    return value


if __name__ == "__main__":
    sys.exit(main())
