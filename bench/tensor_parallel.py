"""What sharing a model among ranks costs here: an all-reduce by size, and decoding steps of SmolLM2 at each degree.

    octavo bench tensor_parallel [--degrees 1 3] [--sequences 1 16 64] [--model PATH]
    python -m bench.tensor_parallel …                          the same

Ranks are processes on this machine's CPUs, gloo between them over loopback. The first table is of all-reduces alone, of as many
rows of SmolLM2's width as a step has tokens; the second of whole decoding steps through the engine, with the time that rank 0 spent
in collectives, which holds its waiting for slower ranks. On a machine with fewer cores than ranks the ranks take turns: what is
measured then is the cost, not a gain.
"""

import argparse
import dataclasses
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the engine process sets it; before torch is loaded

import torch
from torch._C._distributed_c10d import FileStore

from bench.machine import machine
from bench.serving_run import positive
from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.llm import LLM
from octavo_runtime.engine.ranks.leader import Leader
from octavo_runtime.messages import AddRequest, Sampling
from octavo_runtime.model.collectives import Collectives, gloo_group
from tests.runtime.models import smollm2_path

ROWS = (1, 16, 64, 512)
WIDTH = 576  # of SmolLM2's residual stream, fp32
CONTEXT_TOKENS = 16
KV_BYTES = 256 << 20
START_TIMEOUT_S = 300.0


@dataclasses.dataclass(frozen=True)
class Steps:
    """Decoding steps of so many sequences: medians of a step."""

    degree: int
    sequences: int
    step_ms: float
    collectives: float  # a step
    collectives_ms: float  # of a step


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    print(f"{parsed.model} on {machine()}, torch {torch.__version__}\n", flush=True)
    print(f"| ranks | {' | '.join(f'{rows} x {WIDTH}' for rows in ROWS)} |\n|---|{'---|' * len(ROWS)}")
    for degree in parsed.degrees:
        if degree > 1:
            medians = all_reduces_us(degree, parsed.repeats)
            print(f"| {degree} | {' | '.join(f'{one:,.0f} µs' for one in medians)} |", flush=True)
    print("\n| ranks | sequences | step ms | tokens/s | collectives a step | ms in them | µs each | share |")
    print("|---|---|---|---|---|---|---|---|")
    for degree in parsed.degrees:
        for steps in decoding(parsed.model, degree, parsed.sequences, parsed.tokens):
            print(_row(steps), flush=True)
    return 0


def all_reduces_us(size: int, repeats: int) -> list[float]:
    """The median time of an all-reduce of each of `ROWS`, in rank 0."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(size)
    with tempfile.TemporaryDirectory(prefix="octavo-bench-") as folder:
        others = [context.Process(target=_reduce, args=(rank, size, repeats, folder, ready)) for rank in range(1, size)]
        for other in others:
            other.start()
        times = _reduce(0, size, repeats, folder, ready)
        for other in others:
            other.join()
    return [1e6 * statistics.median(of_size) for of_size in times]


def _reduce(rank: int, size: int, repeats: int, folder: str, ready: Barrier) -> list[list[float]]:
    torch.set_num_threads(1)
    ready.wait(START_TIMEOUT_S)  # imports may take longer than gloo waits
    ranks = Collectives(gloo_group(FileStore(str(Path(folder) / "store"), size), rank, size, "127.0.0.1"), rank, size)
    times: list[list[float]] = []
    for rows in ROWS:
        part = torch.zeros(rows, WIDTH)
        times.append([])
        for _ in range(repeats):
            started_s = time.perf_counter()
            ranks.summed(part)
            times[-1].append(time.perf_counter() - started_s)
    return times


def decoding(model: Path, degree: int, batches: Sequence[int], tokens: int) -> list[Steps]:
    """Decoding steps of `tokens` tokens at one degree, for each number of sequences."""
    config = ServeConfig(str(model), tensor_parallel_size=degree, kv_cache_memory=KV_BYTES, max_model_len=256)
    llm = LLM(config)
    try:
        return [_decoding(llm, degree, sequences, tokens) for sequences in batches]
    finally:
        llm.engine.close()


def _decoding(llm: LLM, degree: int, sequences: int, tokens: int) -> Steps:
    engine = llm.engine
    ranks = engine.ranks.collectives if isinstance(engine.ranks, Leader) else None
    for index in range(sequences):
        prompt = [(7 * index + place) % engine.info.vocab_size for place in range(CONTEXT_TOKENS)]
        engine.add(AddRequest(f"{sequences}-{index}", prompt, Sampling(temperature=0.0), seed=0, max_tokens=tokens))
    times: list[tuple[float, int, float]] = []  # of pure decoding steps: seconds, collectives, seconds in them
    while engine.scheduler.has_work:
        count, busy_s, started_s = ranks.count if ranks else 0, ranks.busy_s if ranks else 0.0, time.perf_counter()
        outputs = engine.step()
        spent_s = time.perf_counter() - started_s
        if outputs is not None and outputs.stats.step_tokens == outputs.stats.batch_size == sequences:
            times.append((spent_s, (ranks.count if ranks else 0) - count, (ranks.busy_s if ranks else 0.0) - busy_s))
    if not times:
        raise SystemExit(f"--tokens: the first of {sequences} sequences ended before the last one began: give more")
    step_s, collectives, busy = (statistics.median(column) for column in zip(*times, strict=True))
    return Steps(degree, sequences, 1e3 * step_s, collectives, 1e3 * busy)


def _row(steps: Steps) -> str:
    begin = (
        f"| {steps.degree} | {steps.sequences} | {steps.step_ms:.1f} | {1e3 * steps.sequences / steps.step_ms:.0f} |"
    )
    if not steps.collectives:
        return f"{begin} 0 | | | |"
    each_us = 1e3 * steps.collectives_ms / steps.collectives
    share = f"{steps.collectives_ms / steps.step_ms:.0%}"
    return f"{begin} {steps.collectives:.0f} | {steps.collectives_ms:.1f} | {each_us:.0f} | {share} |"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="octavo bench tensor_parallel", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--model", type=Path, default=smollm2_path(), help="a model's file or folder (default: SmolLM2)"
    )
    parser.add_argument("--degrees", type=positive, nargs="+", default=[1, 3], help="numbers of ranks (default: 1 3)")
    parser.add_argument("--sequences", type=positive, nargs="+", default=[1, 16, 64], help="default: 1 16 64")
    parser.add_argument("--tokens", type=positive, default=24, help="decoded by each sequence (default: 24)")
    parser.add_argument("--repeats", type=positive, default=200, help="of each all-reduce (default: 200)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
