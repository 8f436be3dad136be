"""Throughput of the mixed workload: Octavo's engine in process beside transformers' static batches, alternated in one run.

    python -m bench.serving [--model PATH] [--requests 16] [--pairs 3]

Greedy, end of sequence ignored, both in the type that Octavo chooses for this machine. A machine may drift by a factor of two
between minutes, so the figure to quote is the ratio, with its spread over the pairs.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the engine process sets it; before torch is loaded

import torch
import transformers

from bench.static_batches import reference_model, static_rate
from bench.workload import Request, mixed
from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.llm import LLM
from octavo_runtime.messages import AddRequest, Sampling
from tests.runtime.models import smollm2_path

STATIC_BATCH = 8


def octavo_rate(llm: LLM, work: list[Request]) -> float:
    """Output tokens a second with all requests submitted at once."""
    requests = [
        AddRequest(str(index), prompt, Sampling(temperature=0.0), 0, max_tokens=output)
        for index, (prompt, output) in enumerate(work)
    ]
    started_s = time.monotonic()
    tokens = sum(len(completion.token_ids) for completion in llm.generate(requests))
    return tokens / (time.monotonic() - started_s)


def main() -> None:
    parser = argparse.ArgumentParser(description="Throughput of Octavo's engine beside transformers' static batches.")
    parser.add_argument(
        "--model", type=Path, default=smollm2_path(), help="GGUF file or folder (default: SmolLM2-135M)"
    )
    parser.add_argument("--requests", type=int, default=16, help="requests in the workload (default: 16)")
    parser.add_argument("--pairs", type=int, default=3, help="interleaved pairs of runs (default: 3)")
    arguments = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    work = mixed(arguments.requests)
    llm = LLM(ServeConfig(str(arguments.model)))
    dtype = llm.engine.info.dtype
    model = reference_model(arguments.model, dtype)
    print(f"{arguments.requests} requests, {dtype}, {torch.get_num_threads()} threads; output tokens a second")
    print(f"{'pair':>4} {'octavo':>8} {'static':>8} {'ratio':>6}")
    ratios = []
    for pair in range(arguments.pairs):
        ours, theirs = octavo_rate(llm, work), static_rate(model, work, STATIC_BATCH)
        ratios.append(ours / theirs)
        print(f"{pair + 1:>4} {ours:8.1f} {theirs:8.1f} {ratios[-1]:6.2f}", flush=True)
    print(f"ratio: median {statistics.median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
