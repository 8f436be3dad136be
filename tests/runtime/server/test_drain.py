import asyncio
from collections.abc import Awaitable, Callable

import pytest

from octavo_runtime.server.drain import LINGER_S, Drain, Pace
from octavo_runtime.server.errors import UnavailableError
from tests.runtime.server.parts import Parts


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(scenario(), 20)

    asyncio.run(limited())


def test_an_idle_server_is_drained_at_once_and_refuses_from_then_on() -> None:
    async def scenario() -> None:
        drain = Drain()
        assert await drain.run(settle_s=0, timeout_s=0)
        with pytest.raises(UnavailableError) as caught, drain.request():
            pass
        assert caught.value.headers() == {"retry-after": "1", "connection": "close"}
        assert drain.in_flight == 0

    run(scenario)


def test_requests_enter_while_it_settles_and_are_waited_for() -> None:
    async def scenario() -> None:
        drain = Drain()
        draining = asyncio.create_task(drain.run(settle_s=0.05, timeout_s=10))
        await asyncio.sleep(0)
        assert drain.phase == "settling"
        with drain.request():
            await asyncio.wait({draining}, timeout=0.3)  # longer than it settles
            assert not draining.done()
        assert await draining

    run(scenario)


def test_a_request_on_a_connection_older_than_the_refusals_is_answered() -> None:
    async def scenario() -> None:
        drain, old, new = Drain(), ("10.0.0.1", 1), ("10.0.0.1", 2)
        drain.connected = lambda: {old}
        assert await drain.run(settle_s=0, timeout_s=0)
        drain.connected = lambda: {old, new}
        with drain.request(old):
            assert not await drain.run(settle_s=0, timeout_s=0.01)
        with pytest.raises(UnavailableError), drain.request(new):
            pass

    run(scenario)


def test_waits_for_who_asks_again_after_an_answer_that_could_not_tell_to_leave() -> None:
    async def scenario() -> None:
        drain, client = Drain(), ("10.0.0.1", 1)
        drain.connected = lambda: {client}
        with drain.request(client):
            draining = asyncio.create_task(drain.run(settle_s=0, timeout_s=10))
            await asyncio.sleep(0)
        await asyncio.wait({draining}, timeout=LINGER_S / 2)
        assert not draining.done()
        with drain.request(client):
            await asyncio.wait({draining}, timeout=LINGER_S)
            assert not draining.done(), "it asked again"
        assert await draining

    run(scenario)


def test_gives_up_on_what_does_not_end() -> None:
    async def scenario() -> None:
        drain = Drain()
        with drain.request():
            assert not await drain.run(settle_s=0, timeout_s=0.01)
            assert drain.in_flight == 1

    run(scenario)


def test_a_second_drain_joins_the_first_and_does_not_settle_again() -> None:
    async def scenario() -> None:
        drain = Drain()
        assert await drain.run(settle_s=0, timeout_s=1)
        assert await drain.run(settle_s=3600, timeout_s=1)

    run(scenario)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/version", 200, id="information"),
        pytest.param("GET", "/nowhere", 404, id="nothing"),
        pytest.param("POST", "/v1/completions", 400, id="a body that is none"),
    ],
)
def test_every_answer_tells_to_leave_once_a_drain_has_begun(parts: Parts, method: str, path: str, status: int) -> None:
    async def scenario() -> None:
        async with parts.http() as client:
            before = await client.request(method, path)
            assert (before.status_code, "connection" in before.headers) == (status, False)
            parts.service.drain.phase = "settling"
            after = await client.request(method, path)
            assert (after.status_code, after.headers.get_list("connection")) == (status, ["close"])

    run(scenario)


def test_estimate_is_the_longest_request_at_the_measured_pace() -> None:
    pace = Pace()
    assert pace.estimate_s() == 0.0
    pace.expect("a", 100)
    pace.expect("b", 10)
    assert pace.estimate_s() is None
    pace.came("a", 1, None)
    pace.came("a", 1, 0.5)
    assert pace.estimate_s() == pytest.approx(98 * 0.5)
    pace.forget("a")
    assert pace.estimate_s() == pytest.approx(10 * 0.5)
