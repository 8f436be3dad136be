"""What pods export is read from the pods themselves, over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from octavo_operator.observed import PodView
from octavo_operator.signal_path import exported

TEXT = """\
# HELP octavo_kv_block_utilization KV blocks in use by live requests / all.
# TYPE octavo_kv_block_utilization gauge
octavo_kv_block_utilization{model_name="m",engine="0"} 0.25
octavo_requests_waiting 3.0
octavo_predicted_deficit_blocks_of_another 1.0
"""
PADDING = "octavo_phase 1.0\n" * 20_000


@asynccontextmanager
async def pod(text: str, status: int = 200) -> AsyncIterator[int]:
    """The port of a pod on this machine's loopback that answers so."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status)

    application = web.Application()
    application.router.add_get("/metrics", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port: int = runner.addresses[0][1]
        yield port
    finally:
        await runner.cleanup()


def seen(text: str, status: int = 200, **changes: Any) -> dict[str, frozenset[str] | None]:
    async def ask() -> dict[str, frozenset[str] | None]:
        async with pod(text, status) as port:
            view = {"name": "chat-1", "ready": True, "ending": False, "reason": "", "ip": "127.0.0.1", **changes}
            return await exported([PodView(**view)], port)

    return asyncio.run(ask())


@pytest.mark.parametrize("text", [pytest.param(TEXT, id="short"), pytest.param(PADDING + TEXT, id="in many pieces")])
def test_only_whole_names_of_series_count(text: str) -> None:
    assert seen(text) == {"chat-1": frozenset({"octavo_kv_block_utilization", "octavo_requests_waiting"})}


def test_a_pod_that_exports_nothing_of_it_is_told_from_one_that_does_not_answer() -> None:
    assert seen("up 1.0\n") == {"chat-1": frozenset()}
    assert seen(TEXT, status=503) == {"chat-1": None}
    assert seen(TEXT, ip="127.0.0.2") == {"chat-1": None}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"ready": False}, id="not ready"),
        pytest.param({"serving": False}, id="does not lead its group"),
        pytest.param({"ip": ""}, id="has no address"),
    ],
)
def test_pods_that_take_no_requests_are_not_asked(changes: dict[str, Any]) -> None:
    assert seen(TEXT, **changes) == {}
