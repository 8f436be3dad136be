"""transformers' `generate` in static batches, for `bench serving`: what people replace with an engine."""

from collections.abc import Sequence
from pathlib import Path

import torch

from bench.serving_measure import measured, since_process_start_s
from bench.serving_result import Result
from bench.static_batches import reference_model, static_rate
from bench.workload import Request, mixed

BATCH = 8


def static(model_path: Path, requests: int, repeats: int) -> Result:
    """In the type that the model's file has on a CPU with bf16 instructions, else in fp32, as Octavo chooses."""
    dtype = "bfloat16" if torch.ops.mkldnn._is_mkldnn_bf16_supported() else "float32"
    model = reference_model(model_path, dtype)
    ready_s = since_process_start_s()

    def generate(work: Sequence[Request], salt: str) -> int:
        static_rate(model, work, BATCH)
        return sum(output for _, output in work)

    return measured("transformers", ready_s, generate, mixed(requests, vocab_size=model.config.vocab_size), repeats)
