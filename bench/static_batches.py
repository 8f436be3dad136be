"""transformers' `generate` in static batches: the counterpart that people replace with continuous batching."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from bench.workload import Request

if TYPE_CHECKING:
    import transformers


def static_rate(model: "transformers.PreTrainedModel", work: Sequence[Request], batch_size: int) -> float:
    """Output tokens a second in batches of `batch_size`, each as long as its longest member."""
    started_s = time.monotonic()
    for first in range(0, len(work), batch_size):
        batch = work[first : first + batch_size]
        width, steps = max(len(prompt) for prompt, _ in batch), max(output for _, output in batch)
        ids, mask = torch.zeros(len(batch), width, dtype=torch.long), torch.zeros(len(batch), width, dtype=torch.long)
        for row, (prompt, _) in enumerate(batch):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        with torch.inference_mode():
            model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=steps,
                min_new_tokens=steps,
                do_sample=False,
                pad_token_id=0,
            )
    return sum(output for _, output in work) / (time.monotonic() - started_s)


def reference_model(path: Path, dtype: str) -> "transformers.PreTrainedModel":
    import transformers  # takes seconds

    transformers.utils.logging.disable_progress_bar()
    where: dict[str, object] = {"pretrained_model_name_or_path": str(path)}
    if path.suffix == ".gguf":
        where = {
            "pretrained_model_name_or_path": str(path.parent),
            "gguf_file": path.name,
            "quantization_config": transformers.GgufConfig(dequantize=True),
        }
    model: transformers.PreTrainedModel = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=dtype)
    return model.eval()
