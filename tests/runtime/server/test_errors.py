import pytest

from octavo_runtime.messages import ErrorInfo
from octavo_runtime.server.errors import from_engine


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
        pytest.param(ErrorInfo("failed", "m"), 500, "engine_failed", {}, id="failed"),
    ],
)
def test_what_the_engine_refuses_is_told_as_http_does(
    error: ErrorInfo, status: int, code: str, headers: dict[str, str]
) -> None:
    told = from_engine(error)
    assert (told.status, told.message, told.code, told.headers()) == (status, "m", code, headers)
    assert told.param == (error.param if status == 400 else None)
