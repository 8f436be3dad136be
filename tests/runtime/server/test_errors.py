import json

import pytest

from octavo_runtime.messages import ErrorInfo
from octavo_runtime.server.errors import BadRequestError, from_engine, from_validation


@pytest.mark.parametrize(
    ("error", "status", "code", "headers"),
    [
        pytest.param(ErrorInfo("never_fits", "m", "max_tokens"), 400, "never_fits", {}, id="never fits"),
        pytest.param(ErrorInfo("unsupported", "m", "n"), 400, "unsupported", {}, id="unsupported"),
        pytest.param(
            ErrorInfo("queue_full", "m", retry_after_s=7), 503, "queue_full", {"retry-after": "7"}, id="queue full"
        ),
        pytest.param(
            ErrorInfo("queue_full", "m"), 503, "queue_full", {"retry-after": "1"}, id="queue full, no time given"
        ),
        pytest.param(ErrorInfo("deadline", "m"), 504, "deadline_exceeded", {"x-should-retry": "false"}, id="deadline"),
        pytest.param(ErrorInfo("failed", "m"), 500, "engine_failed", {}, id="failed"),
        pytest.param(
            ErrorInfo("failed", "m", retry_after_s=5),
            500,
            "engine_failed",
            {"retry-after": "5"},
            id="failed, and comes back",
        ),
    ],
)
def test_what_the_engine_refuses_is_told_as_http_does(
    error: ErrorInfo, status: int, code: str, headers: dict[str, str]
) -> None:
    told = from_engine(error)
    assert (told.status, told.message, told.code, told.headers()) == (status, "m", code, headers)
    assert told.param == {400: error.param, 504: "deadline_s"}.get(status)
    assert told.type == ("invalid_request_error" if status == 400 else "server_error")


def test_an_error_that_quotes_what_cannot_be_encoded_still_has_a_body() -> None:
    error = json.loads(BadRequestError("no '\ud83d'", param="\ude00").body())["error"]
    assert (error["message"], error["param"]) == ("no '\\ud83d'", "\\ude00")


def test_a_body_that_is_not_json_names_no_field() -> None:
    problem = {"type": "json_invalid", "loc": ("body", 1), "msg": "JSON decode error", "ctx": {"error": "Expecting x"}}
    error = from_validation([problem])
    assert (error.message, error.param) == (
        "the body is not JSON at character 1 (Expecting x): send one JSON object",
        None,
    )
