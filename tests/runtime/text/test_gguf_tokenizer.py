"""The GGUF tokenizer against transformers' own reading of the same file."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo_runtime.gguf_file import GgufHeader
from octavo_runtime.text import gguf_tokenizer, model_text
from octavo_runtime.text.gguf_tokenizer import TokenizerError
from octavo_runtime.text.model_text import ModelText
from tests.runtime.models import smollm2_path

STRINGS = [
    "Hello, world!",
    "x=12345, y=0.5e-3; year 1984",
    "naïve café — “quoted” … x² m³",
    "你好，世界。こんにちは 안녕하세요",
    "🦙👩‍👩‍👧‍👦🏳️‍🌈 emoji",
    "def f(x):\n    return x ** 2\n\n\n# done\t\n",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "I'll won't they've it's we'd I'm you're",
    "",
    " ",
    "a" * 300,
    "<|im_start|><|endoftext|>mid<|im_end|>dle",
]


@pytest.fixture(scope="module")
def smollm2() -> ModelText:
    return model_text.load(smollm2_path())


@pytest.fixture(scope="module")
def transformers_ids() -> Callable[[str], list[int]]:
    import transformers

    path = smollm2_path()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    return lambda text: list(tokenizer.encode(text, add_special_tokens=False))


@pytest.mark.parametrize("text", STRINGS, ids=[repr(text[:12]) for text in STRINGS])
def test_ids_are_those_of_transformers(
    smollm2: ModelText, transformers_ids: Callable[[str], list[int]], text: str
) -> None:
    assert smollm2.tokenizer.encode(text, add_special_tokens=False) == transformers_ids(text)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.characters(exclude_categories=["Nd", "Nl", "No", "Cs"])))
def test_ids_of_any_text_without_digits_are_those_of_transformers(
    smollm2: ModelText, transformers_ids: Callable[[str], list[int]], text: str
) -> None:
    assert smollm2.tokenizer.encode(text, add_special_tokens=False) == transformers_ids(text)


def test_digits_stand_alone_as_the_model_was_trained(smollm2: ModelText) -> None:
    """transformers reads this file without the digit rule, and so splits spaces before a digit in another way."""
    tokens = [smollm2.tokenizer.token_of(one) for one in smollm2.tokenizer.encode("x   42", add_special_tokens=False)]
    assert tokens == ["x", "ĠĠĠ", "4", "2"]


# The vocabulary lacks the bytes of control characters and of the planes above the first two.
@given(st.text(st.characters(max_codepoint=0x1FFFF, exclude_categories=["Cs", "Cc"])))
def test_decoding_gives_the_text_back(smollm2: ModelText, text: str) -> None:
    ids = smollm2.tokenizer.encode(text, add_special_tokens=False)
    assert smollm2.tokenizer.decode(ids, skip_special_tokens=False) == text


def test_knows_the_template_and_the_end(smollm2: ModelText) -> None:
    assert smollm2.eos_ids == (2,)
    assert smollm2.chat_template is not None
    prompt = smollm2.chat_template.render(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    )
    assert prompt == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert smollm2.tokenizer.encode("Hi", add_special_tokens=True) == smollm2.tokenizer.encode(
        "Hi", add_special_tokens=False
    )


def header(**changes: Any) -> GgufHeader:
    letters = ["<s>", "a", "b", "ab", "1", "<extra>"]
    metadata: dict[str, Any] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": letters,
        "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 4],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
    }
    renamed = {f"tokenizer.ggml.{name}": value for name, value in changes.items()}
    return GgufHeader({**metadata, **renamed}, {})


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        pytest.param({}, [3, 4], id="merges"),
        pytest.param({"add_bos_token": True}, [0, 3, 4], id="BOS where the file says so"),
        pytest.param({"pre": "llama-bpe"}, [0, 3, 4], id="BOS by default for Llama 3"),
        pytest.param({"pre": "llama-bpe", "add_bos_token": False}, [3, 4], id="unless the file says no"),
        pytest.param({"pre": "qwen2"}, [3, 4], id="Qwen 2"),
    ],
)
def test_builds_from_metadata(changes: dict[str, object], ids: list[int]) -> None:
    assert gguf_tokenizer.build(header(**changes)).tokenizer.encode("ab1", add_special_tokens=True) == ids


def test_control_tokens_are_special_and_user_defined_ones_are_text() -> None:
    tokenizer = gguf_tokenizer.build(header()).tokenizer
    assert tokenizer.decode([0, 3, 5]) == "ab<extra>"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        pytest.param({"model": "llama"}, r"tokenizer\.ggml\.model is 'llama'", id="model"),
        pytest.param({"pre": "unheard-of"}, r"tokenizer\.ggml\.pre is 'unheard-of'", id="pre-tokenizer"),
    ],
)
def test_what_it_does_not_know_is_an_error_that_names_it(changes: dict[str, object], text: str) -> None:
    with pytest.raises(TokenizerError, match=text):
        gguf_tokenizer.build(header(**changes))
