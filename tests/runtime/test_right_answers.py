"""SmolLM2-135M answers as transformers does in fp32: token by token, alone and in company.

The reference is asked once per answer: its logits over prompt and answer give, at each position, the token that greedy decoding
would take there. Two fp32 implementations may differ where the two best logits are closer than `CLOSE`; from such a place on the
answers are different texts, so the comparison ends there. It must not end early everywhere, or nothing was compared.
"""

from pathlib import Path

import msgspec
import pytest
import torch
import transformers

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.llm import LLM
from octavo_runtime.messages import AddRequest, Sampling
from octavo_runtime.text import model_text
from tests.runtime.models import smollm2_path

CLOSE = 0.15
COMPARED = {
    "float32": 0.9,
    "bfloat16": 0.7,
}  # the share of tokens up to such places; rounded operands come to them earlier
QUESTIONS = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "Explain photosynthesis to a child.",
    "What is 12 times 12?",
    "List three primary colours.",
    "Who wrote Hamlet?",
    "Translate 'good morning' into Spanish.",
    "Give me a recipe for pancakes.",
    "Why is the sky blue?",
    "Name a mammal that can fly.",
    "What does HTTP stand for?",
    "Write a Python function that adds two numbers.",
    "How many days are in a leap year?",
    "What is the boiling point of water?",
    "Tell me a short joke.",
    "What is the largest planet of the solar system?",
    "Summarise: The cat sat on the mat because it was warm.",
    "Is a tomato a fruit or a vegetable?",
    "Write an e-mail to my team about Friday's meeting, and keep it polite.",
    "Continue the story: Once upon a time, in a village by a lake, there lived an old clockmaker.",
]


@pytest.fixture(scope="module")
def prompts() -> list[AddRequest]:
    text = model_text.load(smollm2_path())
    assert text.chat_template is not None
    texts = [text.chat_template.render([{"role": "user", "content": question}]) for question in QUESTIONS]
    return [
        AddRequest(
            id=str(index),
            prompt_ids=text.tokenizer.encode(prompt, add_special_tokens=False),
            sampling=Sampling(temperature=0.0),
            seed=0,
            eos_ids=list(text.eos_ids),
        )
        for index, prompt in enumerate(texts)
    ]


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def dtype(request: pytest.FixtureRequest) -> str:
    """Plain torch computes in float32, the CPU kernels where they can run in bfloat16."""
    return str(request.param)


@pytest.fixture(scope="module")
def llm(dtype: str) -> LLM:
    return LLM(ServeConfig(str(smollm2_path()), dtype=dtype, kv_cache_memory=512 << 20, max_model_len=1024))


@pytest.fixture(scope="module")
def reference(dtype: str) -> transformers.PreTrainedModel:
    """In fp32, with the weights that the engine was given."""
    path: Path = smollm2_path()
    model: transformers.PreTrainedModel = transformers.AutoModelForCausalLM.from_pretrained(
        str(path.parent),
        gguf_file=path.name,
        quantization_config=transformers.GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    if dtype == "bfloat16":
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.bfloat16())
    return model.eval()


def compared_tokens(reference: transformers.PreTrainedModel, request: AddRequest, answer: list[int]) -> int:
    """How many tokens of the answer are the reference's, up to a place where its two best are close."""
    ids = torch.tensor([request.prompt_ids + answer])
    with torch.inference_mode():
        logits = reference(ids).logits[0, len(request.prompt_ids) - 1 : -1]
    for position, token in enumerate(answer):
        best = logits[position].topk(2)
        if token != int(best.indices[0]):
            gap = float(best.values[0] - best.values[1])
            assert gap < CLOSE, (
                f"prompt {request.id}, token {position}: {token}, reference {best.indices[0]} leads by {gap}"
            )
            return position
    return len(answer)


@pytest.mark.parametrize(
    ("together", "tokens"),
    # A step for one sequence costs nearly as much as one for all: alone, the answers are shorter and fewer.
    [pytest.param(False, 10, id="alone"), pytest.param(True, 24, id="batched")],
)
def test_greedy_answers_are_those_of_transformers(
    dtype: str,
    llm: LLM,
    reference: transformers.PreTrainedModel,
    prompts: list[AddRequest],
    together: bool,
    tokens: int,
) -> None:
    asked = prompts if together else prompts[::3]
    requests = [msgspec.structs.replace(prompt, max_tokens=tokens) for prompt in asked]
    if together:
        completions = llm.generate(requests)
    else:
        completions = [llm.generate([request])[0] for request in requests]
    answers = [completion.token_ids for completion in completions]
    compared = [compared_tokens(reference, request, answer) for request, answer in zip(requests, answers, strict=True)]
    assert sum(compared) >= COMPARED[dtype] * sum(len(answer) for answer in answers)
    assert llm.engine.scheduler.pool.used == 0
