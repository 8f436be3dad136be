"""What an answer of the API server, or of something in between, is to the operator; over real HTTP."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client import ApiClient, Configuration

from octavo_operator import kinds, kube
from octavo_operator.service import Key

KEY = Key("demo", "chat")
STATUS = '{"kind": "Status", "message": "because"}'


def asked(
    story: Callable[[kube.Kube], Awaitable[Any]], text: str = "{}", status: int = 200, requests: Any = None
) -> Any:
    """What `story` gets where every request is answered so; they are put into the list `requests`."""

    async def answer(request: web.Request) -> web.Response:
        if requests is not None:
            requests.append((request.method, request.path_qs, dict(request.headers), await request.text()))
        return web.Response(text=text, status=status)

    async def run() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            settings = Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
            settings.api_key["BearerToken"] = "Bearer s3cret"
            async with ApiClient(settings) as client:
                return await story(kube.Kube(client))
        finally:
            await runner.cleanup()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "text", "error", "says"),
    [
        pytest.param(403, STATUS, kube.DeniedError, "because", id="forbidden"),
        pytest.param(422, STATUS, kube.RejectedError, "^because$", id="invalid"),
        pytest.param(
            500, '{"message": "field not declared in schema"}', kube.RejectedError, "schema", id="no such field"
        ),
        pytest.param(409, STATUS, kube.UnavailableError, "because", id="conflict"),
        pytest.param(503, "<html>", kube.UnavailableError, "503 Service Unavailable", id="no Status"),
        pytest.param(200, "<html>", kube.UnavailableError, "no JSON but b'<html>'", id="no JSON"),
    ],
)
def test_an_answer_is_an_error_of_what_can_be_done(
    status: int, text: str, error: type[kube.KubeError], says: str
) -> None:
    with pytest.raises(error, match=says):
        asked(lambda api: api.get(kinds.DEPLOYMENT, KEY), text, status)


def test_a_request_is_for_one_object_and_carries_the_token() -> None:
    requests: list[tuple[str, str, dict[str, str], str]] = []
    body = {"metadata": {"name": "chat", "namespace": "demo"}}
    assert asked(lambda api: api.apply(kinds.DEPLOYMENT, body), '{"a": 1}', requests=requests) == {"a": 1}
    [(method, path, headers, sent)] = requests
    assert (method, sent) == ("PATCH", '{"metadata": {"name": "chat", "namespace": "demo"}}')
    assert path == "/apis/apps/v1/namespaces/demo/deployments/chat?fieldManager=octavo-operator&force=true"
    assert (headers["Authorization"], headers["Content-Type"]) == ("Bearer s3cret", "application/apply-patch+yaml")


def test_all_of_a_kind_are_read_in_pages() -> None:
    requests: list[tuple[str, str, dict[str, str], str]] = []
    page = '{"items": [{"a": 1}], "metadata": {}}'

    async def story(api: kube.Kube) -> list[dict[str, Any]]:
        return [each async for each in api.listed(kinds.POD, selector="a=b")]

    assert asked(story, page, requests=requests) == [{"a": 1}]
    assert [path for _, path, _, _ in requests] == ["/api/v1/pods?limit=500&labelSelector=a%3Db"]
