"""A tokenizer small enough to think about: each byte is a token, and three special ones mark the turns of a chat."""

import json
from pathlib import Path

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from octavo_runtime.text.tokenizer import Tokenizer

SPECIAL = ("<|end|>", "<|user|>", "<|assistant|>")
VOCAB_SIZE = 256 + len(SPECIAL)
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message.role not in ('system', 'user', 'assistant') %}"
    "{{ raise_exception('only system, user and assistant may speak') }}{% endif %}"
    "<|user|>{{ message.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def byte_library() -> LibraryTokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = LibraryTokenizer(models.BPE({character: index for index, character in enumerate(alphabet)}, []))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return library


def byte_tokenizer() -> Tokenizer:
    return Tokenizer(byte_library())


def save_byte_tokenizer(folder: Path) -> None:
    """As a Hugging Face folder has it, with a chat template and `<|end|>` as the end token."""
    byte_library().save(str(folder / "tokenizer.json"))
    config = {"chat_template": CHAT_TEMPLATE, "eos_token": "<|end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
