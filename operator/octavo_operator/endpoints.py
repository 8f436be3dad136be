"""The operator's HTTP endpoints: `/healthz` and `/readyz` on one port, `/metrics` on another.

`/healthz` fails where a restart may help: a reconcile that never ends, or no answer of the API server for minutes (a lost token,
a dead connection pool). That the handler runs at all shows that the event loop does.
"""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

LONGEST_RECONCILE_S = 300.0
SILENT_API_S = 300.0
SILENT_API_UNREADY_S = 60.0


@dataclasses.dataclass(frozen=True)
class Vitals:
    """Ages in seconds, asked at each probe."""

    longest_reconcile_s: Callable[[], float]
    api_silence_s: Callable[[], float]

    def failure(self, silent_api_s: float) -> str:
        """What is wrong, or an empty string."""
        if (age_s := self.longest_reconcile_s()) > LONGEST_RECONCILE_S:
            return f"a reconcile has been running for {age_s:.0f} s"
        if (age_s := self.api_silence_s()) > silent_api_s:
            return f"the API server has not answered for {age_s:.0f} s"
        return ""


@contextlib.asynccontextmanager
async def served(
    health_port: int, metrics_port: int, vitals: Vitals, registry: CollectorRegistry
) -> AsyncIterator[None]:
    """Serves both ports while the block runs."""

    def answer(silent_api_s: float) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(_: web.Request) -> web.Response:
            failure = vitals.failure(silent_api_s)
            return web.Response(status=503 if failure else 200, text=failure or "ok")

        return handle

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": "text/plain; version=0.0.4"})

    async with (
        _listening(health_port, {"/healthz": answer(SILENT_API_S), "/readyz": answer(SILENT_API_UNREADY_S)}),
        _listening(metrics_port, {"/metrics": metrics}),
    ):
        yield


@contextlib.asynccontextmanager
async def _listening(
    port: int, routes: dict[str, Callable[[web.Request], Awaitable[web.Response]]]
) -> AsyncIterator[None]:
    application = web.Application()
    for path, handler in routes.items():
        application.router.add_get(path, handler)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
        yield
    finally:
        await runner.cleanup()
