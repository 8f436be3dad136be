"""Asking pods for their state, over real HTTP on loopback addresses."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest
from aiohttp import web

from octavo_operator.observed import PodView
from octavo_operator.service import Key
from octavo_operator.state.polling import LIMIT_BYTES, Pace, Polling
from octavo_operator.state.readings import Readings

CHAT = Key("demo", "chat")
READY = '{"phase": "ready", "blocks_total": 8}'
QUICK = Pace(starting_s=0.1, ready_s=600.0, timeout_s=20.0, tick_s=0.02)
IMPATIENT = Pace(starting_s=0.1, ready_s=0.1, timeout_s=0.3, tick_s=0.02)
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def pod(
    number: int, *, ready: bool = True, running: bool = True, serving: bool = True, ending: bool = False
) -> PodView:
    """A pod at 127.0.0.`number`."""
    return PodView(
        f"chat-{number}", ready, ending, "", f"u{number}", f"127.0.0.{number}", running=running, serving=serving
    )


class Pods:
    """Pods that answer as told, by their number; `asked` counts."""

    def __init__(self, answers: Mapping[int, Answer]) -> None:
        self.answers = dict(answers)
        self.asked: dict[int, int] = {}

    @contextlib.asynccontextmanager
    async def answering(self) -> AsyncIterator[int]:
        async def handle(request: web.Request) -> web.StreamResponse:
            assert request.path == "/state"
            number = int(str(request.host).partition(":")[0].rpartition(".")[2])
            self.asked[number] = self.asked.get(number, 0) + 1
            return await self.answers[number](request)

        application = web.Application()
        application.router.add_get("/{path:.*}", handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.0)
        await runner.setup()
        site = web.TCPSite(runner, "0.0.0.0", 0)
        await site.start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


def text(body: str, status: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body, status=status)

    return answer


async def elsewhere(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(f"http://127.0.0.1:{request.url.port}/state")


async def wait_until(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.02)


async def never(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(1.0)  # longer than anybody waits here
    return web.Response()


def poll(pods: Pods, views: list[PodView], until: Callable[[Readings], bool], pace: Pace = QUICK) -> list[Key]:
    """Polls until that holds of the readings; returns the services that were told to have changed."""
    changed: list[Key] = []

    async def run() -> None:
        readings = Readings(time.monotonic)
        async with pods.answering() as port:
            polling = Polling(lambda: {CHAT: views}, readings, changed.append, port, pace)
            task = asyncio.create_task(polling.run())
            await wait_until(lambda: until(readings))
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    asyncio.run(run())
    return changed


def phase(readings: Readings, number: int) -> str | None:
    found = readings.of(CHAT).readings.get(f"u{number}")
    return found.phase if found else None


def test_reads_the_state_of_the_pods_that_run_and_says_whose_status_that_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    pods = Pods({number: text(READY) for number in (1, 2, 3, 4, 5)})
    views = [pod(1), pod(2), pod(3, running=False), pod(4, serving=False), pod(5, ending=True)]
    changed = poll(pods, views, lambda readings: phase(readings, 1) == phase(readings, 2) == "ready")
    assert changed == [CHAT]
    assert pods.asked == {1: 1, 2: 1}, "who does not run, never serves, or ends is not asked"


def test_asks_a_pod_that_starts_more_often_than_one_that_is_ready() -> None:
    pods = Pods({1: text(READY), 2: text('{"phase": "loading"}')})
    poll(pods, [pod(1), pod(2, ready=False)], lambda _: pods.asked.get(2, 0) >= 2)
    assert pods.asked == {1: 1, 2: 2}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(text("no", status=500), id="an error"),
        pytest.param(text("<html>"), id="no state"),
        pytest.param(text(READY + " " * LIMIT_BYTES), id="too much"),
        pytest.param(elsewhere, id="a redirect"),
        pytest.param(never, id="nothing"),
    ],
)
def test_a_pod_that_gives_no_state_is_out_of_reach_and_keeps_nobody_waiting(answer: Answer) -> None:
    pods = Pods({1: text(READY), 2: answer})
    views = [pod(1), pod(2, ready=False)]
    poll(pods, views, lambda readings: phase(readings, 1) == "ready", IMPATIENT)
    asked = pods.asked.get(2, 0)
    poll(pods, views[1:], lambda readings: phase(readings, 2) == "unknown", IMPATIENT)
    assert pods.asked[2] - asked >= 3, "one silence is no verdict"
