"""The same workload on transformers' paged continuous batching (`generate_batch`): the same shape, random weights of its own."""

import logging
from typing import Any

import torch
import transformers

from bench.gpu.figures import Run, Workload, steady_rate
from octavo_runtime.model.config import ModelConfig


def new_peer(shape: ModelConfig, device: torch.device, dtype: torch.dtype) -> Any:  # transformers is untyped
    """Made on the device; nothing in it is a special token, so that every answer has its full length."""
    logging.getLogger("transformers").setLevel(logging.WARNING)
    config = transformers.LlamaConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=shape.max_position,
        rms_norm_eps=shape.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        tie_word_embeddings=shape.tied_embeddings,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    return model.eval()


def peer_run(model: Any, workload: Workload, prompts: list[list[list[int]]], settings: Any = None) -> Run:
    """Runs of all these prompts, the last one told; the first ones warm it up. With settings None, its defaults: graphs, flash
    attention where it is installed, most of the free memory for pages.

    Time counts from the first request's arrival to the last token, without the start and the end of its thread.
    """
    generation = transformers.GenerationConfig(
        max_new_tokens=workload.output_tokens, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    for batch in prompts:
        outputs = model.generate_batch(
            batch,
            generation_config=generation,
            continuous_batching_config=settings,
            record_timestamps=True,
            persistent_manager=True,
        )
    model.destroy_cached_continuous_batching_manager()  # it is sized for this workload
    results = list(outputs.values())
    if len(results) != workload.batch or any(len(one.generated_tokens) != workload.output_tokens for one in results):
        raise RuntimeError("generate_batch did not answer every request in full: see its log above")
    arrivals_s = [list(one.timestamps) for one in results]
    seconds = max(times[-1] for times in arrivals_s) - min(one.created_time for one in results)
    return Run("transformers", workload, seconds, steady_rate(arrivals_s))
