"""The answers on the wire: OpenAI's objects for chat and for completions, whole and in chunks.

`stop_reason` (the stop string or token id that ended a choice) is vLLM's extension.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

StopReason = str | int | None


@dataclasses.dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    degraded: tuple[str, ...] = ()  # what a shortage of memory did to the request; our extension, absent where nothing

    def wire(self) -> dict[str, Any]:
        degraded = {"degraded": list(self.degraded)} if self.degraded else {}
        return degraded | {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


@dataclasses.dataclass(frozen=True)
class Ended:
    """Why a choice ended."""

    finish_reason: str
    stop_reason: StopReason = None


@dataclasses.dataclass(frozen=True)
class Choice:
    """One whole answer."""

    text: str
    ended: Ended


class Shape(Protocol):
    """How one kind of request is answered."""

    id: str

    def opening(self, index: int) -> dict[str, Any] | None:
        """The chunk before a choice's first text, where the kind has one."""
        ...

    def chunk(self, index: int, text: str, ended: Ended | None) -> dict[str, Any]: ...

    def usage_chunk(self, usage: Usage) -> dict[str, Any]: ...

    def whole(self, choices: Sequence[Choice], usage: Usage) -> dict[str, Any]: ...


class _Envelope:
    """The members that every object of one answer repeats."""

    chunk_object: str
    whole_object: str

    def __init__(self, request_id: str, model: str, include_usage: bool) -> None:
        self.id = request_id
        self._model = model
        self._include_usage = include_usage
        self._created = int(time.time())

    def usage_chunk(self, usage: Usage) -> dict[str, Any]:
        return self._object(self.chunk_object, []) | {"usage": usage.wire()}

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        chunk = self._object(self.chunk_object, [choice])
        return chunk | {"usage": None} if self._include_usage else chunk

    def _object(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self._created, "model": self._model, "choices": choices}


def _reasons(ended: Ended | None) -> dict[str, Any]:
    if ended is None:
        return {"finish_reason": None}
    return {"finish_reason": ended.finish_reason, "stop_reason": ended.stop_reason}


class ChatShape(_Envelope):
    chunk_object = "chat.completion.chunk"
    whole_object = "chat.completion"

    def opening(self, index: int) -> dict[str, Any] | None:
        delta = {"role": "assistant", "content": ""}
        return self._chunk({"index": index, "delta": delta, "logprobs": None, "finish_reason": None})

    def chunk(self, index: int, text: str, ended: Ended | None) -> dict[str, Any]:
        delta = {"content": text} if text else {}
        return self._chunk({"index": index, "delta": delta, "logprobs": None} | _reasons(ended))

    def whole(self, choices: Sequence[Choice], usage: Usage) -> dict[str, Any]:
        wire = [
            {"index": index, "message": {"role": "assistant", "content": choice.text}, "logprobs": None}
            | _reasons(choice.ended)
            for index, choice in enumerate(choices)
        ]
        return self._object(self.whole_object, wire) | {"usage": usage.wire()}


class CompletionShape(_Envelope):
    chunk_object = whole_object = "text_completion"

    def opening(self, index: int) -> dict[str, Any] | None:
        return None

    def chunk(self, index: int, text: str, ended: Ended | None) -> dict[str, Any]:
        return self._chunk({"index": index, "text": text, "logprobs": None} | _reasons(ended))

    def whole(self, choices: Sequence[Choice], usage: Usage) -> dict[str, Any]:
        wire = [
            {"index": index, "text": choice.text, "logprobs": None} | _reasons(choice.ended)
            for index, choice in enumerate(choices)
        ]
        return self._object(self.whole_object, wire) | {"usage": usage.wire()}


def event(content: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + msgspec.json.encode(content) + b"\n\n"


def error_event(body: bytes) -> bytes:
    return b"data: " + body + b"\n\n"


DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": waiting\n\n"
