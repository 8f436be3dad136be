"""An engine that dies while requests run and others wait: each gets an error that says why, and the server answers again."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.runtime.server.running import START_TIMEOUT_S, RunningServer, running_server, until
from tests.runtime.server.test_ladder import few_pages

REQUESTS = 12  # of which the pool holds two


@pytest.fixture(scope="module")
def small(tiny_chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tiny_chat_model, tmp_path_factory.mktemp("death"), *few_pages()) as running:
        yield running


def body(number: int, max_tokens: int, prompt: int = 40) -> dict[str, object]:
    return {"model": "tiny", "prompt": [number] * prompt, "max_tokens": max_tokens, "ignore_eos": True}


async def asked_until_it_dies(server: RunningServer, kill: Callable[[], None]) -> list[httpx2.Response]:
    """Requests that fill the pool and the queue, and `kill` when they do: all answers."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=120.0) as client:
        asking = [asyncio.create_task(client.post("/v1/completions", json=body(one, 400))) for one in range(REQUESTS)]
        while (state := await asyncio.to_thread(server.state))["running"] < 2 or state["waiting"] < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.to_thread(kill)
        return await asyncio.gather(*asking)


def check(server: RunningServer, responses: list[httpx2.Response], restarts: int) -> None:
    failed = [one for one in responses if one.status_code == 500]
    assert len(failed) >= 4  # two that ran and two that waited, at least
    for response in failed:
        error = response.json()["error"]
        assert (error["code"], "SIGKILL" in error["message"]) == ("engine_failed", True)
    assert {one.status_code for one in responses} <= {200, 500, 503}
    until(lambda: server.get("/ready")[0] == 200, START_TIMEOUT_S)
    assert server.state()["engine"]["restarts"] == restarts
    answer = httpx2.post(f"{server.url}/v1/completions", json=body(1, 3, prompt=4), timeout=60.0)
    assert (answer.status_code, answer.json()["usage"]["completion_tokens"]) == (200, 3)
    until(lambda: server.state()["pressure_level"] == 0)


def test_a_killed_engine_loses_neither_who_ran_nor_who_waited(small: RunningServer) -> None:
    engine = small.state()["engine"]
    responses = asyncio.run(asked_until_it_dies(small, lambda: os.kill(engine["pid"], signal.SIGKILL)))
    check(small, responses, engine["restarts"] + 1)
