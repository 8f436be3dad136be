"""What is known of live objects without reading them, beside an API server that says how often it was asked."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client import ApiClient, Configuration

from octavo_operator import kinds, kube, mirror, names
from octavo_operator.service import Key

KEY = Key("demo", "chat")
CONFLICT = {"kind": "Status", "message": "the object has been modified"}


class ApiServer:
    """Holds one object, whatever is asked for; `asked` are the verbs."""

    def __init__(self) -> None:
        self.live: dict[str, Any] | None = None
        self.refuses = False
        self.asked: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.method)
        self.meanwhile()
        if self.refuses:
            return web.json_response(CONFLICT, status=409)
        return web.json_response(self.live) if self.live else web.json_response({}, status=404)


def body(version: str, replicas: int = 1, labels: dict[str, str] | None = None) -> dict[str, Any]:
    managed = {names.MANAGED_BY_LABEL: names.MANAGED_BY}
    metadata = {"name": "chat", "namespace": "demo", "resourceVersion": version, "labels": managed | (labels or {})}
    return {"metadata": metadata, "spec": {"replicas": replicas}}


def told(story: Callable[[mirror.Mirror, ApiServer], Awaitable[None]]) -> None:
    async def run() -> None:
        server = ApiServer()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            host = f"http://127.0.0.1:{runner.addresses[0][1]}"
            async with ApiClient(Configuration(host=host)) as client:
                await story(mirror.Mirror(kube.Kube(client)), server)
        finally:
            await runner.cleanup()

    asyncio.run(run())


def test_what_was_read_or_shown_is_not_read_again() -> None:
    async def story(copies: mirror.Mirror, server: ApiServer) -> None:
        server.live = body("5")
        assert await copies.read(kinds.DEPLOYMENT, KEY) == body("5")
        assert await copies.read(kinds.DEPLOYMENT, KEY) == body("5")
        assert copies.heard(kinds.DEPLOYMENT, body("7", replicas=2))
        assert await copies.read(kinds.DEPLOYMENT, KEY) == body("7", replicas=2)
        assert server.asked == ["GET"]

    told(story)


def test_what_is_not_there_is_asked_for_each_time() -> None:
    async def story(copies: mirror.Mirror, server: ApiServer) -> None:
        assert await copies.read(kinds.DEPLOYMENT, KEY) is None
        server.live = body("5")  # of others, whom no watch shows
        assert await copies.read(kinds.DEPLOYMENT, KEY) == body("5")

    told(story)


def test_what_a_watch_shows_late_neither_counts_nor_is_news() -> None:
    async def story(copies: mirror.Mirror, server: ApiServer) -> None:
        server.live = body("12")
        await copies.apply(kinds.DEPLOYMENT, body(""))
        assert not copies.heard(kinds.DEPLOYMENT, body("9", replicas=3)), "an earlier writer's"
        assert not copies.heard(kinds.DEPLOYMENT, body("12")), "the operator's own write"
        assert copies.heard(kinds.DEPLOYMENT, body("101")), "numbers, not texts"
        assert await copies.read(kinds.DEPLOYMENT, KEY) == body("101")
        assert server.asked == ["PATCH"]

    told(story)


def test_a_status_that_was_written_is_known() -> None:
    async def story(copies: mirror.Mirror, server: ApiServer) -> None:
        server.live = body("5")
        live = await copies.read(kinds.INFERENCE_SERVICE, KEY)
        assert live is not None
        server.live = {**body("6"), "status": {"replicas": 1}}
        await copies.apply_status(kinds.INFERENCE_SERVICE, live, {"replicas": 1})
        assert await copies.read(kinds.INFERENCE_SERVICE, KEY) == server.live
        assert server.asked == ["GET", "PATCH"]

    told(story)


def test_after_a_write_that_failed_it_is_read() -> None:
    async def story(copies: mirror.Mirror, server: ApiServer) -> None:
        server.live, server.refuses = body("6"), True
        copies.heard(kinds.INFERENCE_SERVICE, body("5"))
        with pytest.raises(kube.UnavailableError, match="modified"):
            await copies.apply_status(kinds.INFERENCE_SERVICE, body("5"), {})
        server.refuses = False
        assert await copies.read(kinds.INFERENCE_SERVICE, KEY) == body("6")
        assert server.asked == ["PATCH", "GET"]

    told(story)


ENDS = pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda copies: copies.gone(kinds.DEPLOYMENT, KEY), id="deleted"),
        pytest.param(lambda copies: copies.forget(kinds.DEPLOYMENT), id="listed anew"),
        pytest.param(lambda copies: copies.forget(), id="resync"),
    ],
)


@ENDS
def test_what_may_be_gone_is_read(end: Callable[[mirror.Mirror], None]) -> None:
    async def story(copies: mirror.Mirror, server: ApiServer) -> None:
        copies.heard(kinds.DEPLOYMENT, body("5"))
        copies.heard(kinds.SERVICE, body("5"))
        end(copies)
        assert await copies.read(kinds.DEPLOYMENT, KEY) is None
        assert server.asked == ["GET"]

    told(story)


@ENDS
def test_an_answer_that_an_end_overtook_is_not_kept(end: Callable[[mirror.Mirror], None]) -> None:
    async def story(copies: mirror.Mirror, server: ApiServer) -> None:
        server.live, server.meanwhile = body("5"), lambda: end(copies)
        assert await copies.apply(kinds.DEPLOYMENT, body("")) == body("5")
        assert await copies.read(kinds.DEPLOYMENT, KEY) == body("5")
        server.live = None
        assert await copies.read(kinds.DEPLOYMENT, KEY) is None
        assert server.asked == ["PATCH", "GET", "GET"]

    told(story)


@pytest.mark.parametrize(
    "unwatched",
    [
        pytest.param(body("5", labels={names.MANAGED_BY_LABEL: "somebody"}), id="without the label"),
        pytest.param(body("v5"), id="version that is no number"),
    ],
)
def test_what_no_watch_tells_of_is_not_kept(unwatched: dict[str, Any]) -> None:
    async def story(copies: mirror.Mirror, server: ApiServer) -> None:
        server.live = unwatched
        copies.heard(kinds.DEPLOYMENT, body("4"))
        assert copies.heard(kinds.DEPLOYMENT, unwatched)
        for _ in range(2):
            assert await copies.read(kinds.DEPLOYMENT, KEY) == unwatched
        assert server.asked == ["GET", "GET"]

    told(story)
