"""Every response has one `x-request-id`, refusals too; those of the engine: `test_choices.py`."""

import asyncio
from typing import Any

import pytest

from tests.runtime.server.parts import Parts


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        pytest.param("GET", "/nowhere", None, 404, id="no such path"),
        pytest.param("PUT", "/v1/models", None, 405, id="no such method"),
        pytest.param("POST", "/v1/completions", {"model": "tiny"}, 400, id="a field that lacks"),
        pytest.param("POST", "/v1/completions", {"model": "other", "prompt": "a"}, 404, id="another model"),
        pytest.param("POST", "/v1/completions", {"model": "tiny", "prompt": "a"}, 503, id="not loaded yet"),
        pytest.param("GET", "/version", None, 200, id="an answer"),
    ],
)
def test_a_response_has_an_id_of_its_own(
    parts: Parts, method: str, path: str, body: dict[str, Any] | None, status: int
) -> None:
    async def ask() -> list[str]:
        async with parts.http() as client:
            answers = [await client.request(method, path, json=body) for _ in range(2)]
        assert {answer.status_code for answer in answers} == {status}
        return [one for answer in answers for one in answer.headers.get_list("x-request-id")]

    ids = asyncio.run(ask())
    assert len(set(ids)) == 2
    assert all(ids)
