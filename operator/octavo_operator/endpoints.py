"""The operator's HTTP endpoints: `/healthz` and `/readyz` on one port, `/metrics` on another.

`/healthz` fails where a restart may help: a reconcile that never ends, no answer of the API server for minutes (a lost token, a
dead connection pool), a watch that is silent though it was opened anew. `/readyz` fails sooner.
That the handler runs at all shows that the event loop does.
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
class Limits:
    """How long the API server and a watch may be silent, in seconds."""

    api_s: float
    watch_s: float


@dataclasses.dataclass(frozen=True)
class Vitals:
    """What is asked at each probe: ages in seconds, and what is silent for longest. `watch_timeout_s` is kopf's patience."""

    longest_reconcile_s: Callable[[], float]
    api_silence_s: Callable[[], float]
    watch_silence: Callable[[], tuple[str, float]] = lambda: ("", 0.0)
    watch_timeout_s: float = 70.0

    def unhealthy(self) -> str:
        """Why a restart may help, or an empty string."""
        return self._failure(Limits(SILENT_API_S, 4 * self.watch_timeout_s + 20))

    def unready(self) -> str:
        """Why this process does not do its work, or an empty string."""
        return self._failure(Limits(SILENT_API_UNREADY_S, 2 * self.watch_timeout_s + 10))

    def _failure(self, limits: Limits) -> str:
        if (age_s := self.longest_reconcile_s()) > LONGEST_RECONCILE_S:
            return f"a reconcile has been running for {age_s:.0f} s"
        if (age_s := self.api_silence_s()) > limits.api_s:
            return f"the API server has not answered for {age_s:.0f} s"
        what, age_s = self.watch_silence()
        if age_s > limits.watch_s:
            return f"the watch of {what} has been silent for {age_s:.0f} s"
        return ""


@contextlib.asynccontextmanager
async def served(
    health_port: int, metrics_port: int, vitals: Vitals, registry: CollectorRegistry
) -> AsyncIterator[None]:
    """Serves both ports while the block runs."""

    def answer(failure: Callable[[], str]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(_: web.Request) -> web.Response:
            text = failure()
            return web.Response(status=503 if text else 200, text=text or "ok")

        return handle

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": "text/plain; version=0.0.4"})

    async with (
        _listening(health_port, {"/healthz": answer(vitals.unhealthy), "/readyz": answer(vitals.unready)}),
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
