"""An 8B-shaped Llama with random bf16 weights on one GPU, from prompts to tokens, and transformers' paged batching beside it.

`python -m bench.gpu_e2e [--json FILE]`: throughput at batch 1, 32 and 128 with contexts of about a thousand tokens, and the share
of what the memory's bandwidth, measured by copying in the same run, would allow a decode step. Both engines are warmed with the
same workload and other prompts first. Weights are random, so tokens mean nothing; times do not depend on that.
"""

import argparse
import dataclasses
import json
import random
import sys
from pathlib import Path

import torch

from bench.gpu.figures import LLAMA_8B, Run, Workload, bandwidth_share, table
from bench.kernels.timing import copy_bandwidth
from octavo_runtime.model.config import ModelConfig

BATCHES = (1, 32, 128)
PROMPT_TOKENS, OUTPUT_TOKENS = 960, 128
SEEDS = (0, 1)  # of the prompts: the first run warms up, the second counts
PAGE_SIZE = 16
STEP_TOKENS = 8192


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_e2e", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--without-peer", action="store_true", help="Octavo alone")
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print("bench.gpu_e2e needs a GPU, and torch sees none", file=sys.stderr)
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    bandwidth_bytes_s = copy_bandwidth()
    workloads = [Workload(batch, PROMPT_TOKENS, OUTPUT_TOKENS) for batch in BATCHES]
    runs = octavo_runs(LLAMA_8B, device, workloads)
    if not asked.without_peer:
        torch.cuda.empty_cache()
        runs += peer_runs(LLAMA_8B, device, workloads)
    machine = f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    print(f"{machine}; copying: {bandwidth_bytes_s / 1e9:,.0f} GB/s\n\n{table(runs, LLAMA_8B, bandwidth_bytes_s)}")
    if asked.json:
        asked.json.write_text(json.dumps(_figures(runs, machine, bandwidth_bytes_s), indent=1) + "\n")
    return 0


def octavo_runs(shape: ModelConfig, device: torch.device, workloads: list[Workload]) -> list[Run]:
    # Triton must not be imported before it is known that there is a GPU.
    from bench.gpu.octavo import octavo_run
    from octavo_runtime.engine import gpu_model
    from octavo_runtime.engine.device_runner import RunnerLimits
    from octavo_runtime.model.attention import AttentionShape
    from octavo_runtime.model.decoder import Decoder
    from octavo_runtime.model.kv_pool import KvPool
    from octavo_runtime.model.triton_compute import TritonCompute
    from octavo_runtime.model.weights import WeightReader
    from tests.runtime.gpu.random_weights import RandomCheckpoint

    longest = max(workload.prompt_tokens + workload.output_tokens for workload in workloads)
    limits = RunnerLimits(PAGE_SIZE, max(workload.batch for workload in workloads), longest + 1, STEP_TOKENS)
    weights = WeightReader(RandomCheckpoint(shape, device, spread=0.02), torch.bfloat16, lambda percent: None)
    with torch.inference_mode():
        decoder = Decoder(shape, weights, limits.max_model_len, device, TritonCompute())
    attention = AttentionShape(shape.heads, shape.kv_heads, shape.head_dim, PAGE_SIZE, torch.bfloat16)
    backend = gpu_model.new_backend(attention, limits, device)
    # A few more pages than all sequences take, as admission leaves 3 % of them.
    pages = limits.max_num_seqs * -(-limits.max_model_len // PAGE_SIZE) * 21 // 20
    pool = KvPool(shape.layers, pages, backend.page_bytes, device)
    runner = gpu_model.new_runner(decoder, backend, pool, limits)
    runner.warm_up()
    runs = []
    for workload in workloads:
        for seed in SEEDS:
            run = octavo_run(runner, limits, pages, workload, prompts(workload, shape, seed), shape.vocab_size)
        runs.append(run)
    return runs


def peer_runs(shape: ModelConfig, device: torch.device, workloads: list[Workload]) -> list[Run]:
    from bench.gpu.peer import new_peer, peer_run  # imports transformers

    model = new_peer(shape, device, torch.bfloat16)
    return [peer_run(model, one, [prompts(one, shape, seed) for seed in SEEDS]) for one in workloads]


def prompts(workload: Workload, shape: ModelConfig, seed: int) -> list[list[int]]:
    """Random ids, so that none begin alike."""
    source = random.Random(seed)
    return [[source.randrange(shape.vocab_size) for _ in range(workload.prompt_tokens)] for _ in range(workload.batch)]


def _figures(runs: list[Run], machine: str, bandwidth_bytes_s: float) -> dict[str, object]:
    rows = [
        {
            **dataclasses.asdict(run),
            "output_tokens_s": run.output_tokens_s,
            "step_ms": run.step_ms,
            "bandwidth_share": bandwidth_share(run, LLAMA_8B, bandwidth_bytes_s),
        }
        for run in runs
    ]
    return {"machine": machine, "bandwidth_bytes_s": bandwidth_bytes_s, "runs": rows}


if __name__ == "__main__":
    sys.exit(main())
