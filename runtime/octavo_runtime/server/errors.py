"""What a client can be told went wrong, by what it can do about it.

ApiError
├── BadRequestError    400  change the request (`param` names the field)
├── UnauthorizedError  401  give a key
├── NotFoundError      404  ask for something else
├── UnavailableError   503  the same again after `retry_after_s`, here or at another replica
├── DeadlineError      504  the same again with more time, or later
└── EngineFailedError  500  the same again, where told after `retry_after_s`; if it stays, the server's log says why

Bodies are OpenAI's: `{"error": {"message", "type", "param", "code"}}`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from octavo_runtime.messages import ErrorInfo


class ApiError(Exception):
    """An answer other than success. `close` asks the client to leave this connection."""

    status = 500
    type = "server_error"

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.retry_after_s: int | None = None
        self.close = False

    def body(self) -> bytes:
        param = None if self.param is None else _encodable(self.param)
        error = {"message": _encodable(self.message), "type": self.type, "param": param, "code": self.code}
        return msgspec.json.encode({"error": error})

    def headers(self) -> dict[str, str]:
        headers = {} if self.retry_after_s is None else {"retry-after": str(self.retry_after_s)}
        return headers | {"connection": "close"} if self.close else headers


class BadRequestError(ApiError):
    status = 400
    type = "invalid_request_error"


class UnauthorizedError(ApiError):
    """The connection is left: a body that was sent with the request has not been read."""

    status = 401
    type = "invalid_request_error"

    def __init__(self, given: bool) -> None:
        what = "the API key is not one of this server's" if given else "an API key is missing"
        super().__init__(f"{what}: send the header 'Authorization: Bearer <key>'", code="invalid_api_key")
        self.close = True

    def headers(self) -> dict[str, str]:
        return super().headers() | {"www-authenticate": "Bearer"}


class NotFoundError(ApiError):
    status = 404
    type = "invalid_request_error"


class UnavailableError(ApiError):
    status = 503

    def __init__(
        self, message: str, code: str, retry_after_s: int, close: bool = False, param: str | None = None
    ) -> None:
        super().__init__(message, param, code)
        self.retry_after_s = retry_after_s
        self.close = close


class DeadlineError(ApiError):
    status = 504

    def __init__(self, message: str) -> None:
        super().__init__(message, param="deadline_s", code="deadline_exceeded")

    def headers(self) -> dict[str, str]:
        """OpenAI's client repeats what a server could not answer in time, unless it is told not to."""
        return super().headers() | {"x-should-retry": "false"}


class EngineFailedError(ApiError):
    def __init__(self, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message, code="engine_failed")
        self.retry_after_s = retry_after_s


def from_engine(error: ErrorInfo) -> ApiError:
    """The engine's refusal as HTTP says it."""
    if error.kind in ("queue_full", "pressured"):
        return UnavailableError(error.message, error.kind, error.retry_after_s or 1, param=error.param)
    if error.kind == "deadline":
        return DeadlineError(error.message)
    if error.kind == "failed":
        return EngineFailedError(error.message, error.retry_after_s)
    return BadRequestError(error.message, error.param, code=error.kind)


def from_validation(problems: list[Mapping[str, Any]]) -> BadRequestError:
    """The first of pydantic's problems names the field; up to ten are told."""
    texts = [_problem_text(problem) for problem in problems[:10]]
    param = _field(problems[0]) if problems else None
    return BadRequestError("; ".join(texts), param=param)


def _problem_text(problem: Mapping[str, Any]) -> str:
    field, kind = _field(problem), problem["type"]
    prefix = f"{field}: " if field else ""
    if kind == "json_invalid":
        position, why = problem["loc"][1], problem["ctx"]["error"]
        return f"the body is not JSON at character {position} ({why}): send one JSON object"
    if kind in ("model_attributes_type", "missing") and not field:
        return "the body must be a JSON object, sent with the header Content-Type: application/json"
    if kind == "extra_forbidden":
        return f"{prefix}unknown field"
    if kind == "missing":
        return f"{prefix}this field is required"
    message = re.sub("^Value error, ", "", str(problem["msg"]))
    given = problem.get("input")
    shown = f" (given: {str(given)[:200]})" if isinstance(given, str | int | float) else ""
    return f"{prefix}{message}{shown}"


def _field(problem: Mapping[str, Any]) -> str | None:
    """None for a body that is no JSON: pydantic's location is a position in the text then."""
    return None if problem["type"] == "json_invalid" else field_path(problem["loc"][1:])


def field_path(parts: Sequence[str | int]) -> str | None:
    """`messages[0].content` from ("messages", 0, "content"); None for the body itself."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".") or None


def _encodable(text: str) -> str:
    """What a client sent may be quoted in its error, and not all of it can be encoded."""
    return text.encode(errors="backslashreplace").decode()
