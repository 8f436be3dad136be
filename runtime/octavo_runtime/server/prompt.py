"""Messages and texts to token ids, refusing early what cannot fit. Runs off the event loop; pure but for the tokenizer's cache."""

from collections.abc import Sequence
from typing import Any

from octavo_runtime.server.errors import BadRequestError
from octavo_runtime.server.options import check_ids, check_prompt_length
from octavo_runtime.server.schema import Message, Options
from octavo_runtime.text.chat_template import TemplateError
from octavo_runtime.text.model_text import ModelText
from octavo_runtime.text.tokenizer import Tokenizer


def chat_text(
    text: ModelText, messages: Sequence[Message], add_generation_prompt: bool, variables: dict[str, Any] | None
) -> str:
    """The chat template's prompt. Raises BadRequestError with the template's own words."""
    if text.chat_template is None:
        raise BadRequestError("the model has no chat template: use /v1/completions", param="messages")
    reserved = {"messages", "add_generation_prompt", "tools", "documents"} & set(variables or {})
    if reserved:
        raise BadRequestError(f"chat_template_kwargs may not set {sorted(reserved)[0]}", param="chat_template_kwargs")
    wire = [message.model_dump(exclude_none=True) for message in messages]
    try:
        return text.chat_template.render(wire, add_generation_prompt, **(variables or {}))
    except TemplateError as error:
        raise BadRequestError(str(error), param="messages") from error


def encode(
    tokenizer: Tokenizer, text: str, add_special_tokens: bool, options: Options, max_model_len: int, part: str
) -> list[int]:
    """The prompt's ids. A text whose characters alone are too many is refused without tokenizing it."""
    check_prompt_length(-(-len(text) // tokenizer.max_token_chars), options, max_model_len, part, "at least")
    ids = tokenizer.encode(text, add_special_tokens)
    check_length(ids, options, max_model_len, part)
    return ids


def check_length(ids: list[int], options: Options, max_model_len: int, part: str) -> None:
    if not ids:
        raise BadRequestError(f"the {part} must have at least one token", param=part)
    check_prompt_length(len(ids), options, max_model_len, part)


def checked_ids(ids: list[int], options: Options, max_model_len: int, vocab_size: int) -> list[int]:
    """A prompt that came as ids."""
    check_ids(ids, vocab_size, "prompt")
    check_length(ids, options, max_model_len, "prompt")
    return ids
