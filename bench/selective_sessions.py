"""How many sessions a KV memory serves at once, and how fast, for `bench selective`: the whole engine, budget by budget."""

import dataclasses
import time
from pathlib import Path

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.llm import LLM
from octavo_runtime.messages import AddRequest, Sampling

ANSWER_TOKENS = 32


@dataclasses.dataclass(frozen=True)
class Load:
    """`sessions` prompts of `prompt_tokens`, each another, in a KV memory of `memory_bytes`."""

    model: Path
    memory_bytes: int
    sessions: int
    prompt_tokens: int


@dataclasses.dataclass(frozen=True)
class Served:
    at_once: int  # the most that ran in one step
    tokens_per_s: float  # prompts and answers


def serve(load: Load, budget_tokens: int | None) -> Served:
    """All sessions, greedy, from the first step to the last answer."""
    config = ServeConfig(
        str(load.model),
        device="cpu",
        kv_cache_memory=load.memory_bytes,
        kv_budget_tokens=budget_tokens,
        max_model_len=load.prompt_tokens + ANSWER_TOKENS,
        prefix_caching=False,
        memory_ladder=False,
    )
    engine = LLM(config).engine
    for index in range(load.sessions):
        ids = [(index * 31 + place * 7) % 200 for place in range(load.prompt_tokens)]
        engine.add(AddRequest(f"{index}", ids, Sampling(temperature=0.0), seed=0, max_tokens=ANSWER_TOKENS))
    started_s, at_once = time.monotonic(), 0
    while (outputs := engine.step()) is not None:
        assert all(output.error is None for output in outputs.outputs)
        at_once = max(at_once, outputs.stats.running)
    elapsed_s = time.monotonic() - started_s
    engine.close()
    return Served(at_once, load.sessions * (load.prompt_tokens + ANSWER_TOKENS) / elapsed_s)
