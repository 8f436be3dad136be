"""What `--batch-invariant` costs: the same steps with and without it, alternated in one run.

    python -m bench.batch_invariant [--model PATH] [--pairs 7] [--context 256]

A step is the layers over its tokens and the head over the rows that a token is drawn from: decoding steps of 1, 8 and 32 sequences
with `--context` tokens each, and a prompt of 512 in one step. A machine may drift by a factor of two between minutes, so the figure
to quote is the ratio, with its spread over the pairs.

SmolLM2-135M in fp32 on 2 busy cores with AVX2, medians of 7 pairs and their spread, as an indication: decoding 1 row 1.8 times as
long (1.6 to 2.0), 8 rows 1.5 (1.3 to 2.1), 32 rows 2.8 (2.0 to 3.6), a prompt of 512 2.3 (1.5 to 2.5). Products of 16 rows read the
weights once for each 16 tokens, and attention works in tiles of 4 tokens by 512 slots, of which a decoding row uses one token.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the engine process sets it; before torch is loaded

import torch

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.loading import LoadedModel, load
from tests.runtime.model.batches import Chunk, attention_meta, shuffled_pages
from tests.runtime.models import smollm2_path

PROMPT = 512
ROWS = (1, 8, 32)


def loaded(arguments: argparse.Namespace, batch_invariant: bool) -> LoadedModel:
    length = max(PROMPT, arguments.context)
    config = ServeConfig(
        str(arguments.model), max_model_len=length, kv_cache_memory=2 << 30, batch_invariant=batch_invariant
    )
    return load(config, lambda percent: None)


def step(model: LoadedModel, chunks: list[Chunk]) -> Callable[[], float]:
    """Runs a step of `chunks` and tells the seconds that it took."""
    longest = max(chunk.start + chunk.count for chunk in chunks)
    meta = attention_meta(chunks, shuffled_pages(len(chunks), longest, model.block_size), model.block_size)
    ids = (meta.pos * 37 + 100) % model.decoder.config.vocab_size
    last = meta.cu_q[1:].long() - 1

    def run() -> float:
        started_s = time.perf_counter()
        with torch.inference_mode():
            model.decoder.logits(model.decoder.hidden(ids, meta, model.backend, model.pool.layers)[last])
        return time.perf_counter() - started_s

    return run


def compare(name: str, ordinary: Callable[[], float], invariant: Callable[[], float], pairs: int) -> None:
    ordinary(), invariant()
    times = [(ordinary(), invariant()) for _ in range(pairs)]
    ratios = [with_it / without for without, with_it in times]
    without_ms, with_ms = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"{name:<24} {without_ms:9.1f} {with_ms:9.1f} {statistics.median(ratios):6.2f} {min(ratios):6.2f} {max(ratios):6.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What --batch-invariant costs.")
    parser.add_argument(
        "--model", type=Path, default=smollm2_path(), help="GGUF file or folder (default: SmolLM2-135M)"
    )
    parser.add_argument("--pairs", type=int, default=7, help="alternated pairs of steps (default: 7)")
    parser.add_argument("--context", type=int, default=256, help="tokens of a decoding sequence (default: 256)")
    arguments = parser.parse_args()
    ordinary, invariant = loaded(arguments, False), loaded(arguments, True)
    print(f"{ordinary.dtype}, {torch.get_num_threads()} threads; milliseconds a step, medians")
    print(f"{'step':<24} {'ordinary':>9} {'invariant':>9} {'ratio':>6} {'min':>6} {'max':>6}")
    for rows in ROWS:
        chunks = [Chunk(row, arguments.context - 1, 1) for row in range(rows)]
        compare(f"decode, {rows} rows", step(ordinary, chunks), step(invariant, chunks), arguments.pairs)
    prompt = [Chunk(0, 0, PROMPT)]
    compare(f"prompt of {PROMPT}", step(ordinary, prompt), step(invariant, prompt), arguments.pairs)


if __name__ == "__main__":
    main()
