"""The requests on the wire, and the form of an error. Unknown fields and values out of range are errors (400) that name the field.

Answers are in `shapes.py`; what the options mean for the engine is decided in `options.py`.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from octavo_runtime.messages import MOST_LENGTH_PENALTY
from octavo_runtime.server import unsupported
from octavo_runtime.server.errors import BadRequestError

MAX_STOP_STRINGS = 4
MAX_PROMPTS = 1024
MAX_CACHE_SALT_CHARS = 256
_MOST_PRINTED = 10**30


class Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _stop_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _joined_text(value: object) -> object:
    """Text parts become one string, a line each; other parts are refused here, where the part's number is known."""
    if value is None:
        raise ValueError("null is not supported by this version: give the text")
    if not isinstance(value, list):
        return value
    return "\n".join(_part_text(index, part) for index, part in enumerate(value))


def _part_text(index: int, part: object) -> str:
    if not isinstance(part, dict) or part.get("type") != "text":
        kind = part.get("type") if isinstance(part, dict) else part
        raise ValueError(f"part {index} is {kind!r}: this version takes text parts only")
    if not isinstance(part.get("text"), str):
        raise ValueError(f"part {index} has no text")
    return str(part["text"])


def _prompt_list(value: object) -> object:
    """One prompt (text or ids) becomes a list of one."""
    if isinstance(value, str) or (isinstance(value, list) and value and isinstance(value[0], int)):
        return [value]
    return value


def _checked_prompts(value: object) -> object:
    if (
        not isinstance(value, list)
        or not value
        or not (_all(value, str) or all(_all(one, int) and one for one in value))
    ):
        raise ValueError("give a text, a list of texts, a list of token ids or a list of such lists; none may be empty")
    if len(value) > MAX_PROMPTS:
        raise ValueError(f"{len(value)} prompts are more than {MAX_PROMPTS}: send several requests")
    return value


def _all(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) and not isinstance(item, bool) for item in value)


def _printable(value: int) -> int:
    """Python prints no endless number in the error that refuses it; any of 30 digits is refused as well."""
    return min(value, _MOST_PRINTED)


Count = Annotated[int, AfterValidator(_printable)]  # whose most is not known here: the context, or what runs at once
StopString = Annotated[str, Field(min_length=1)]
Prompts = Annotated[list[str] | list[list[int]], BeforeValidator(_checked_prompts), BeforeValidator(_prompt_list)]


class StreamOptions(Wire):
    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None
    continuous_usage_stats: Literal[False] | None = None


class Options(Wire):
    """What chat and completions share. None means the default: the model author's where there is one, else OpenAI's."""

    model: str
    max_tokens: Count | None = Field(None, ge=1)
    min_tokens: Count = Field(0, ge=0)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, lt=2**63)
    min_p: float | None = Field(None, ge=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stop: Annotated[list[StopString] | None, Field(max_length=MAX_STOP_STRINGS), BeforeValidator(_stop_list)] = None
    stop_token_ids: list[int] | None = Field(None, max_length=128)
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    n: Count | None = Field(None, ge=1)
    use_beam_search: bool | None = None
    beam_width: Count | None = Field(None, ge=1)  # ours: vLLM's width is n
    length_penalty: float | None = Field(None, ge=-MOST_LENGTH_PENALTY, le=MOST_LENGTH_PENALTY)
    priority: int | None = Field(None, ge=-(2**63), lt=2**63)  # lower comes first
    deadline_s: float | None = Field(None, gt=0)  # ours: seconds from arrival
    kv_budget_tokens: int | None = Field(None, ge=1, lt=2**63)  # ours: what is held of the history
    cache_salt: str | None = Field(None, min_length=1, max_length=MAX_CACHE_SALT_CHARS)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None  # says who asks; changes nothing
    safety_identifier: str | None = None  # the same
    prompt_cache_key: str | None = None  # the same

    @model_validator(mode="after")
    def _consistent(self) -> "Options":
        if self.stream_options is not None and not self.stream:
            raise BadRequestError(
                "stream_options is for streamed answers only: set stream to true or leave it out",
                param="stream_options",
            )
        return self

    @property
    def choices(self) -> int:
        """Answers to each prompt."""
        return self.n or 1

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def output_limit_name(self) -> str:
        """What the client calls it."""
        return "max_tokens"

    def output_limit(self) -> int | None:
        """The explicit limit of output tokens, if the client set one."""
        return self.max_tokens


class Message(Wire):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str, BeforeValidator(_joined_text)]
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _supported(cls, value: Any) -> Any:
        return unsupported.without_neutral(value, unsupported.MESSAGE) if isinstance(value, dict) else value


class ChatRequest(Options):
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: Count | None = Field(None, ge=1)
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _supported(cls, value: Any) -> Any:
        return unsupported.without_neutral(value, unsupported.CHAT) if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _one_limit(self) -> "ChatRequest":
        older, newer = self.max_tokens, self.max_completion_tokens
        if older is not None and newer is not None and older != newer:
            raise BadRequestError(
                f"max_tokens {older} and max_completion_tokens {newer} say two limits of the same: give one of them",
                param="max_tokens",
            )
        return self

    @property
    def output_limit_name(self) -> str:
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    def output_limit(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


class CompletionRequest(Options):
    prompt: Prompts
    add_special_tokens: bool = True

    @model_validator(mode="before")
    @classmethod
    def _supported(cls, value: Any) -> Any:
        return unsupported.without_neutral(value, unsupported.COMPLETION) if isinstance(value, dict) else value


class TokenizeRequest(Wire):
    """Either a plain prompt or messages that go through the chat template."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = Field(None, min_length=1)
    add_special_tokens: bool | None = None  # default: yes for a prompt, no for messages (their template writes them)
    add_generation_prompt: bool = True
    return_token_strs: bool = False

    @model_validator(mode="after")
    def _one_of_two(self) -> "TokenizeRequest":
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages")
        return self


class DetokenizeRequest(Wire):
    model: str | None = None
    tokens: list[int]


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """What `errors.ApiError.body` writes, for /openapi.json."""

    error: ErrorDetail
