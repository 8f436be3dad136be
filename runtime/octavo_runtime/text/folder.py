"""Tokenizer, chat template, end tokens and default sampling from a Hugging Face folder, read as plain JSON."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from octavo_runtime.text.gguf_tokenizer import TokenizerError
from octavo_runtime.text.tokenizer import Tokenizer

_DEFAULTS = ("temperature", "top_p", "top_k", "min_p")


@dataclasses.dataclass(frozen=True)
class FolderText:
    tokenizer: Tokenizer
    chat_template: str | None
    special_tokens: dict[str, str]  # bos_token, eos_token, … as the chat template names them
    eos_ids: tuple[int, ...]
    sampling_defaults: dict[str, float]


def read(folder: Path) -> FolderText:
    """Raises TokenizerError where `tokenizer.json` is missing or unreadable."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise TokenizerError(f"{path} does not exist: a model folder needs tokenizer.json")
    try:
        library = LibraryTokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception and nothing else
        raise TokenizerError(f"{path} cannot be read ({error}): fetch it again") from error
    tokenizer = Tokenizer(library)
    config = _json(folder / "tokenizer_config.json")
    generation = _json(folder / "generation_config.json")
    special = {key: _token_text(value) for key, value in config.items() if key.endswith("_token")}
    special = {key: value for key, value in special.items() if value is not None}
    return FolderText(
        tokenizer=tokenizer,
        chat_template=_chat_template(folder, config),
        special_tokens={key: value for key, value in special.items() if value is not None},
        eos_ids=_eos_ids(tokenizer, special.get("eos_token"), generation, _json(folder / "config.json")),
        sampling_defaults={
            key: float(generation[key]) for key in _DEFAULTS if isinstance(generation.get(key), int | float)
        },
    )


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise TokenizerError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise TokenizerError(f"{path} holds {type(content).__name__}, expected an object")
    return content


def _token_text(value: object) -> str | None:
    """A special token is a string, or an object with `content`."""
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None


def _chat_template(folder: Path, config: dict[str, Any]) -> str | None:
    """`chat_template.jinja` wins over the one in the configuration, which may be a list of named ones."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text()
    template = config.get("chat_template")
    if isinstance(template, list):
        template = next((entry["template"] for entry in template if entry.get("name") == "default"), None)
    return template if isinstance(template, str) else None


def _eos_ids(tokenizer: Tokenizer, eos_token: str | None, *configs: dict[str, Any]) -> tuple[int, ...]:
    ids = {tokenizer.id_of(eos_token)} if eos_token else set()
    for config in configs:
        value = config.get("eos_token_id")
        ids.update(value if isinstance(value, list) else [value])
    return tuple(sorted(one for one in ids if isinstance(one, int)))
