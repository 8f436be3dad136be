"""SmolLM2-135M on three ranks, its degree, with the CPU kernels where they run: the tokens that one rank's fp32 logits give.

As in `test_right_answers.py`, a token may differ where the two best logits are closer than `CLOSE`, and the comparison ends there.
"""

import pytest
import torch

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.llm import LLM
from octavo_runtime.messages import AddRequest, Sampling
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.weights import WeightReader, open_checkpoint
from octavo_runtime.text import model_text
from tests.runtime.model.batches import Chunk, run_steps
from tests.runtime.models import smollm2_path

CLOSE = 0.15
COMPARED = 0.7  # the share of tokens up to such places, with operands rounded to bf16
TOKENS = 16
QUESTIONS = [
    "What is the capital of France?",
    "Explain photosynthesis to a child.",
    "List three primary colours.",
    "Who wrote Hamlet?",
]


@pytest.fixture(scope="module")
def asked() -> list[AddRequest]:
    text = model_text.load(smollm2_path())
    assert text.chat_template is not None
    rendered = [text.chat_template.render([{"role": "user", "content": question}]) for question in QUESTIONS]
    ids = [text.tokenizer.encode(prompt, add_special_tokens=False) for prompt in rendered]
    return [
        AddRequest(str(index), one, Sampling(temperature=0.0), seed=0, max_tokens=TOKENS)
        for index, one in enumerate(ids)
    ]


class RoundedWeights(WeightReader):
    """In fp32, but no more exact than bf16: what the engine was given."""

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> torch.Tensor:
        return super().take(name, shape, dtype).bfloat16().float()


def test_three_ranks_answer_as_one(asked: list[AddRequest]) -> None:
    llm = LLM(ServeConfig(str(smollm2_path()), tensor_parallel_size=3, kv_cache_memory=256 << 20, max_model_len=512))
    try:
        answers = [completion.token_ids for completion in llm.generate(asked)]
    finally:
        llm.engine.close()
    checkpoint = open_checkpoint(smollm2_path())
    weights = RoundedWeights(checkpoint, torch.float32, lambda percent: None)
    one_rank = Decoder(checkpoint.config, weights, 512, torch.device("cpu"))
    texts = [request.prompt_ids + answer for request, answer in zip(asked, answers, strict=True)]
    logits = run_steps(one_rank, texts, [[Chunk(row, 0, len(text))] for row, text in enumerate(texts)])
    compared = [
        compared_tokens(rows[len(request.prompt_ids) - 1 :], answer)
        for request, answer, rows in zip(asked, answers, logits, strict=True)
    ]
    assert sum(compared) >= COMPARED * len(asked) * TOKENS


def compared_tokens(logits: torch.Tensor, answer: list[int]) -> int:
    """How many tokens of the answer are the likeliest, up to a place where the two best are close."""
    for position, token in enumerate(answer):
        best = logits[position].topk(2)
        if token != int(best.indices[0]):
            assert float(best.values[0] - best.values[1]) < CLOSE
            return position
    return len(answer)
