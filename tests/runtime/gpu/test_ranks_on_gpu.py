"""Several GPUs as ranks of one model. `make test-gpu` runs these."""

from pathlib import Path

import pytest
import torch

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.core import Engine
from tests.runtime.engine.tiny_engine import ask, finish, prompt
from tests.runtime.models import save_tiny_model

pytestmark = pytest.mark.gpu

HEADS = 128  # every power of two up to here is a degree
REQUESTS = [ask(f"r{length}", prompt(f"r{length}", length), max_tokens=12) for length in (5, 40, 90)]


@pytest.fixture(scope="module")
def gpus() -> int:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: torch sees none")
    return torch.cuda.device_count()


def test_more_gpus_than_there_are_is_an_error_with_both_numbers(gpus: int, tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path, num_attention_heads=HEADS, num_key_value_heads=1, vocab_size=HEADS * HEADS)
    degree = next(2**power for power in range(1, 8) if 2**power > gpus)
    with pytest.raises(ConfigError, match=f"{degree} GPUs are needed on this node, and torch sees {gpus}"):
        Engine(ServeConfig(str(model), tensor_parallel_size=degree))


def test_two_gpus_answer_as_one(gpus: int, tmp_path: Path) -> None:
    if gpus < 2:
        pytest.skip(f"needs two GPUs, torch sees {gpus}")
    model = save_tiny_model(tmp_path)
    answers = []
    for degree in (1, 2):
        engine = Engine(ServeConfig(str(model), dtype="float32", tensor_parallel_size=degree, kv_cache_memory=64 << 20))
        try:
            engine.warm_up()
            answers.append(finish(engine, REQUESTS).tokens)
        finally:
            engine.close()
    assert answers[0] == answers[1]
