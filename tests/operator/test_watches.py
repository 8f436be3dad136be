"""Watches over real HTTP: what arrives keeps them young, silence makes them old."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from octavo_operator import kinds
from octavo_operator.watches import Watches


@asynccontextmanager
async def events(sent: "asyncio.Queue[bytes]") -> AsyncIterator[str]:
    """A server that sends what is put into the queue to whoever watches /api/v1/pods, and is in trouble at /trouble."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while piece := await sent.get():
            await response.write(piece)
        return response

    async def trouble(_: web.Request) -> web.Response:
        return web.Response(status=503, text="etcd is away")

    application = web.Application()
    application.router.add_get("/api/v1/pods", handle)
    application.router.add_get("/trouble", trouble)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/api/v1/pods"
    finally:
        await runner.cleanup()


def test_a_watch_is_as_old_as_what_came_last() -> None:
    async def story() -> None:
        now_s = [0.0]
        watches = Watches(lambda: now_s[0])
        assert watches.oldest() == ("", 0.0)
        sent: asyncio.Queue[bytes] = asyncio.Queue()
        async with events(sent) as url, watches.session(False, {}) as session:
            now_s[0] = 10.0
            async with session.get(url, params={"watch": "true"}) as answer:
                assert watches.ages_s() == {"/api/v1/pods": 0.0}, "it has just been opened"
                now_s[0] = 70.0
                assert watches.oldest() == ("/api/v1/pods", 60.0)
                sent.put_nowait(b'{"type": "BOOKMARK"}\n')
                async for piece in answer.content.iter_chunked(1024):
                    assert piece == b'{"type": "BOOKMARK"}\n'
                    break
                assert watches.oldest() == ("/api/v1/pods", 0.0)
                sent.put_nowait(b"")

    asyncio.run(story())


def test_the_first_page_of_a_list_tells_that_a_watch_begins() -> None:
    async def story() -> None:
        watches = Watches()
        begun: list[kinds.Kind] = []
        watches.listed = begun.append
        sent: asyncio.Queue[bytes] = asyncio.Queue()
        async with events(sent) as url, watches.session(False, {}) as session:
            for query in ({"limit": "500"}, {"limit": "500", "continue": "x"}, {"watch": "true"}):
                sent.put_nowait(b"")
                async with session.get(url, params=query) as answer:
                    await answer.read()
        assert begun == [kinds.POD]

    asyncio.run(story())


def test_a_list_is_no_watch() -> None:
    async def story() -> None:
        watches = Watches()
        sent: asyncio.Queue[bytes] = asyncio.Queue()
        sent.put_nowait(b"")
        async with events(sent) as url, watches.session(False, {}) as session, session.get(url) as answer:
            await answer.read()
        assert watches.ages_s() == {}

    asyncio.run(story())


def test_a_refused_watch_stays_as_old_as_it_was() -> None:
    async def story() -> None:
        now_s = [0.0]
        watches = Watches(lambda: now_s[0])
        watches.heard("/nowhere")
        now_s[0] = 60.0
        sent: asyncio.Queue[bytes] = asyncio.Queue()
        async with events(sent) as url, watches.session(False, {}) as session:
            nowhere = url.replace("/api/v1/pods", "/nowhere")
            async with session.get(nowhere, params={"watch": "true"}) as answer:
                assert answer.status == 404
        assert watches.oldest() == ("/nowhere", 60.0)

    asyncio.run(story())


def test_a_kind_that_is_no_longer_served_is_not_missed() -> None:
    watches = Watches()
    kept = ["/api/v1/pods", "/apis/batch/v1/namespaces/jobs/pods", "/apis/keda.sh/v1alpha1/scaledjobs"]
    for path in (*kept, "/apis/keda.sh/v1alpha1/scaledobjects", "/apis/keda.sh/v1alpha1/namespaces/a/scaledobjects"):
        watches.heard(path)
    watches.forget(kinds.SCALED_OBJECT)
    assert list(watches.ages_s()) == kept


def test_an_optional_kind_that_has_gone_is_told_and_only_asked_again() -> None:
    async def story() -> None:
        watches = Watches()
        sent: asyncio.Queue[bytes] = asyncio.Queue()
        async with events(sent) as url, watches.session(False, {}) as session:
            server = url.removesuffix("/api/v1/pods")
            async with session.get(f"{server}/apis/apps/v1/deployments") as answer:
                assert answer.status == 404
            assert not watches.doubt.is_set()
            async with session.get(f"{server}/apis/keda.sh/v1alpha1/namespaces/demo/scaledobjects") as answer:
                assert answer.status == 429
            assert watches.doubt.is_set()

    asyncio.run(story())


def test_a_server_in_trouble_is_only_asked_again() -> None:
    async def story() -> None:
        watches = Watches()
        async with (
            events(asyncio.Queue()) as url,
            watches.session(False, {}) as session,
            session.get(url.replace("/api/v1/pods", "/trouble")) as answer,
        ):
            assert (answer.status, await answer.text()) == (429, "etcd is away")
        assert not watches.doubt.is_set()

    asyncio.run(story())


def test_what_may_not_be_watched_is_told_and_only_asked_again() -> None:
    watches = Watches()
    assert not watches.doubts(403, "/apis/apps/v1/replicasets"), "it is not watched"
    assert watches.take_refused() == frozenset()
    assert watches.doubts(403, "/apis/apps/v1/namespaces/demo/deployments")
    assert watches.doubts(403, "/apis/keda.sh/v1alpha1/scaledobjects")
    assert watches.doubt.is_set()
    assert watches.take_refused() == {kinds.DEPLOYMENT, kinds.SCALED_OBJECT}
    assert watches.take_refused() == frozenset(), "they were taken"
