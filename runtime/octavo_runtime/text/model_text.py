"""All that serving knows about a model's text, from a GGUF file or a Hugging Face folder."""

import dataclasses
from pathlib import Path

from octavo_runtime import gguf_file
from octavo_runtime.text import folder, gguf_tokenizer
from octavo_runtime.text.chat_template import ChatTemplate, TemplateError
from octavo_runtime.text.tokenizer import Tokenizer

ERRORS = (gguf_file.GgufError, gguf_tokenizer.TokenizerError, TemplateError)


@dataclasses.dataclass(frozen=True)
class ModelText:
    """`eos_ids` end an answer; `sampling_defaults` are the model author's (temperature, top_p, top_k, min_p), often empty."""

    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    eos_ids: tuple[int, ...]
    sampling_defaults: dict[str, float]


def load(path: Path) -> ModelText:
    """Raises one of `ERRORS` or OSError, each naming the file or field."""
    if gguf_file.is_gguf(path):
        return _from_gguf(path)
    if path.is_dir():
        return _from_folder(path)
    raise gguf_tokenizer.TokenizerError(f"{path} is neither a GGUF file nor a folder with tokenizer.json")


def _from_gguf(path: Path) -> ModelText:
    text = gguf_tokenizer.build(gguf_file.read_header(path))
    special = {"bos_token": text.bos_token, "eos_token": text.eos_token}
    template = ChatTemplate(text.chat_template, special) if text.chat_template is not None else None
    return ModelText(text.tokenizer, template, text.eos_ids, {})


def _from_folder(path: Path) -> ModelText:
    text = folder.read(path)
    template = ChatTemplate(text.chat_template, text.special_tokens) if text.chat_template is not None else None
    return ModelText(text.tokenizer, template, text.eos_ids, text.sampling_defaults)
