"""What a watch may bring beside events, from an API server over real HTTP, to kopf as the operator runs it."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import kopf
import pytest
from aiohttp import web

from octavo_operator import access, handlers, kinds, kube, mirror, queue, service, watches
from tests.operator import samples

KIND = kinds.INFERENCE_SERVICE
SERVICES = f"/apis/{KIND.api_version}/{KIND.plural}"
VERSION = {"version": KIND.version}
KUBECONFIG = """
apiVersion: v1
kind: Config
contexts: [{{name: here, context: {{cluster: here, user: here}}}}]
clusters: [{{name: here, cluster: {{server: "{url}"}}}}]
users: [{{name: here, user: {{}}}}]
"""


def resources(plural: str, kind: str, *, namespaced: bool) -> dict[str, Any]:
    verbs = ["list", "watch", "patch"]
    entry = {"name": plural, "singularName": "", "kind": kind, "namespaced": namespaced, "verbs": verbs}
    return {"resources": [entry]}


# kopf watches nothing before it knows of namespaces.
DISCOVERY: dict[str, Any] = {
    "/api": {"versions": ["v1"]},
    "/api/v1": resources("namespaces", "Namespace", namespaced=False),
    "/apis": {"groups": [{"name": KIND.group, "versions": [VERSION], "preferredVersion": VERSION}]},
    f"/apis/{KIND.api_version}": resources(KIND.plural, KIND.kind, namespaced=True),
}


def line(kind: str, /, **content: Any) -> bytes:
    return json.dumps({"type": kind, "object": content}).encode() + b"\n"


def added() -> bytes:
    body = samples.body()
    return line("ADDED", **{**body, "metadata": {**body["metadata"], "resourceVersion": "7"}})


class Served:
    """An API server of InferenceServices alone, whose lists are empty. The first watches bring what is in `brought`, one each, and
    end; the next brings a service and stays open."""

    def __init__(self, brought: list[bytes]) -> None:
        self._brought = iter(brought)
        self.lists = 0
        self.ended = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path in DISCOVERY:
            return web.json_response(DISCOVERY[request.path])
        assert request.path == SERVICES
        if "watch" in request.query:
            return await self._watched(request)
        self.lists += 1
        return web.json_response({"kind": "List", "items": [], "metadata": {"resourceVersion": "1"}})

    async def _watched(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        brought = next(self._brought, None)
        await response.write(brought or added())
        if brought is None:
            await self.ended.wait()
        return response


@contextlib.asynccontextmanager
async def listening(served: Served) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_get("/{path:.*}", served.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def watched(served: Served, folder: Path) -> service.Key:
    """The first key that is to be looked at, once `served` is watched."""
    async with contextlib.AsyncExitStack() as stack:
        file = folder / "config"
        file.write_text(KUBECONFIG.format(url=await stack.enter_async_context(listening(served))))
        to = access.Access(file, "here")
        api = await stack.enter_async_context(kube.connection(to))
        keys: queue.KeyQueue[service.Key] = queue.KeyQueue()
        watch = handlers.Watch(keys, to, watches.Watches(patience_s=0.1), mirror.Mirror(api), 70.0)
        looked = asyncio.ensure_future(keys.take())
        running = asyncio.ensure_future(
            kopf.operator(
                registry=watch.registry,
                settings=watch.settings,
                insights=watch.insights,
                indexers=watch.indexers,
                clusterwide=True,
                stop_flag=served.ended,
            )
        )
        await asyncio.wait([running, looked], timeout=20, return_when=asyncio.FIRST_COMPLETED)
        served.ended.set()
        looked.cancel()
        await running
        return looked.result()


@pytest.fixture
def quiet_kopf() -> Iterator[None]:
    """As the operator sets it; kopf's own words are not what is asserted."""
    logger = logging.getLogger("kopf")
    before = logger.level
    logger.setLevel(logging.WARNING)
    yield
    logger.setLevel(before)


HALF: Callable[[bytes], bytes] = lambda whole: whole[: len(whole) // 2]


@pytest.mark.parametrize(
    ("brought", "lists", "says"),
    [
        pytest.param(
            [line("ERROR", kind="Status", code=500, message="etcd is away"), line("ERROR", message="still away")],
            3,
            ["etcd is away (500)", "still away"],
            id="errors",
        ),
        pytest.param([line("BOOKMARK", metadata={}) + line("ERROR")], 2, ["it says nothing about it"], id="no words"),
        pytest.param([line("ERROR", kind="Status", code=410, message="too old")], 2, [], id="a version that is gone"),
        pytest.param([HALF(added())], 1, [], id="half an event"),
    ],
)
def test_it_goes_on_watching(
    brought: list[bytes],
    lists: int,
    says: list[str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    quiet_kopf: None,
) -> None:
    served = Served(brought)
    assert asyncio.run(watched(served, tmp_path)) == service.Key("demo", "chat")
    assert served.lists == lists, "it lists again after an error, and only then"
    told = [record.getMessage() for record in caplog.records if record.name == "octavo_operator.watch_stream"]
    assert [text.rpartition(": ")[2] for text in told] == says
    assert all(f"the watch of {SERVICES} brought an error" in text for text in told)
