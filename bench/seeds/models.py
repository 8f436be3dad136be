"""Seeded models for the sections, and engines over them. Counts of pages do not depend on what a model says, so they are small."""

import functools
from pathlib import Path

from bench.seeds.figure import Settings
from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.llm import LLM

Sizes = dict[str, int | float]

VOCAB_SIZE = 256
COUNTING: Sizes = {"max_position_embeddings": 2048}  # 2 layers of width 64: a step takes milliseconds
SERVING: Sizes = {  # 4 layers of width 256: the step, not the scheduler, takes the time
    "max_position_embeddings": 2048,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "initializer_range": 0.05,
}
LONG_CONTEXT: Sizes = {  # one head each for queries and keys: what grows with the square of the context stays bearable
    "max_position_embeddings": 65536,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 32,
}


def counting_model(settings: Settings) -> Path:
    return _saved(settings.folder / "counting", tuple(COUNTING.items()))


def serving_model(settings: Settings) -> Path:
    """The model that `--model` names, else a seeded one."""
    return settings.model or _saved(settings.folder / "serving", tuple(SERVING.items()))


def long_context_model(settings: Settings) -> Path:
    return _saved(settings.folder / "long-context", tuple(LONG_CONTEXT.items()))


@functools.cache
def _saved(folder: Path, changes: tuple[tuple[str, int | float], ...]) -> Path:
    import transformers

    from tests.runtime.models import save_tiny_model

    transformers.utils.logging.disable_progress_bar()
    return save_tiny_model(folder, "llama", vocab_size=VOCAB_SIZE, **dict(changes))


def engine_of(model: Path, **flags: object) -> LLM:
    """An engine in fp32, so that a token's KV bytes are the same on every machine."""
    return LLM(ServeConfig(str(model), dtype="float32", **flags))  # type: ignore[arg-type]  # checked by ServeConfig's own fields
