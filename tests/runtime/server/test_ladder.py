"""A burst of ten times what the pool holds, over real HTTP: nobody is lost, the level climbs and returns to 0, and it is told."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from octavo_runtime.messages import LADDER
from tests.runtime.server.running import RunningServer, running_server, until
from tests.runtime.server.tiny_model import HEAD_DIM, KV_HEADS, LAYERS

PAGES, PAGE_TOKENS = 60, 16
PROMPT, OUTPUT = 96, 224  # twenty pages together: three requests fill the pool
BURST = 14 * PAGES * PAGE_TOKENS // (PROMPT + OUTPUT)  # ten pools of work even with what is capped
LATER = 4  # of the burst: they come when the level is at its top
CAP = PAGES * 97 // 100 // 4 * PAGE_TOKENS  # tokens of a request at level 5
PATIENCE_S = 120.0


def few_pages() -> list[str]:
    memory = (PAGES + 1) * LAYERS * 2 * PAGE_TOKENS * KV_HEADS * HEAD_DIM * 4
    flags = {
        "--dtype": "float32",
        "--block-size": str(PAGE_TOKENS),
        "--kv-cache-memory": str(memory),
        "--max-model-len": "512",
    }
    return [part for flag in flags.items() for part in flag]


@dataclasses.dataclass
class Answered:
    """What one client of the burst saw."""

    body: dict[str, Any]
    pressures: list[int]
    refusals: list[httpx2.Response]


async def ask(client: httpx2.AsyncClient, number: int) -> Answered:
    """One request of the burst, repeated while it is refused."""
    body = {"model": "tiny", "prompt": [number, *range(PROMPT - 1)], "max_tokens": OUTPUT, "ignore_eos": True}
    pressures: list[int] = []
    refusals: list[httpx2.Response] = []
    async with asyncio.timeout(PATIENCE_S):
        while True:
            response = await client.post("/v1/completions", json=body)
            assert response.status_code in (200, 503), response.text
            pressures.append(int(response.headers["x-octavo-pressure"]))
            if response.status_code == 200:
                return Answered(response.json(), pressures, refusals)
            refusals.append(response)
            await asyncio.sleep(min(0.3, float(response.headers["retry-after"])))


async def burst(server: RunningServer) -> tuple[list[Answered], list[int]]:
    """All answers, and the levels that `/state` told meanwhile."""
    levels: list[int] = []

    async def watch() -> None:
        while True:
            levels.append((await asyncio.to_thread(server.state))["pressure_level"])
            await asyncio.sleep(0.05)

    limits = httpx2.Limits(max_connections=BURST)
    async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_S, limits=limits) as client:
        watching = asyncio.create_task(watch())
        try:
            first = [asyncio.create_task(ask(client, number)) for number in range(BURST - LATER)]
            async with asyncio.timeout(PATIENCE_S):
                while 7 not in levels and not any(one.done() and one.exception() for one in first):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            answered = await asyncio.gather(*first, *(ask(client, number) for number in range(BURST - LATER, BURST)))
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    return list(answered), levels


def counters(server: RunningServer, name: str, label: str) -> dict[str, float]:
    families = text_string_to_metric_families(server.get("/metrics")[1])
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {sample.labels[label]: sample.value for sample in samples}


@pytest.fixture(scope="module")
def small(tiny_chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tiny_chat_model, tmp_path_factory.mktemp("ladder"), *few_pages()) as running:
        yield running


@pytest.fixture(scope="module")
def seen(small: RunningServer) -> tuple[list[Answered], list[int]]:
    return asyncio.run(burst(small))


def test_nobody_of_a_burst_of_ten_pools_is_lost(seen: tuple[list[Answered], list[int]]) -> None:
    answered, _ = seen
    for one in answered:
        usage, degraded = one.body["usage"], one.body["usage"].get("degraded", [])
        capped = [note for note in degraded if note.startswith("length_cap: at most ")]
        assert usage["completion_tokens"] == (CAP - PROMPT if capped else OUTPUT)
        assert one.body["choices"][0]["finish_reason"] == "length"


def test_the_level_climbs_and_returns_to_0(small: RunningServer, seen: tuple[list[Answered], list[int]]) -> None:
    _, levels = seen
    assert max(levels) == 7
    until(lambda: small.state()["pressure_level"] == 0)
    until(lambda: small.state()["phase"] == "ready")
    assert small.state()["pressure_reason"] == ""
    assert small.gauge("octavo_kv_block_utilization") == 0
    climbed = counters(small, "octavo_degradation_total", "step")
    assert set(climbed) == set(LADDER)
    assert min(climbed[step] for step in LADDER if step != "lossy") >= 1
    assert climbed["lossy"] == 0  # it is not allowed


def test_what_was_refused_was_told_why_and_when_to_come_back(
    small: RunningServer, seen: tuple[list[Answered], list[int]]
) -> None:
    answered, _ = seen
    refusals = [response for one in answered for response in one.refusals]
    assert refusals
    for response in refusals:
        error = response.json()["error"]
        assert (error["type"], error["code"]) == ("server_error", "pressured")
        assert "blocks used" in error["message"]
        assert int(response.headers["retry-after"]) >= 1
    assert max(level for one in answered for level in one.pressures) == 7
    assert counters(small, "octavo_requests_refused_total", "kind")["pressured"] == len(refusals)


def test_what_was_capped_was_told_so(small: RunningServer, seen: tuple[list[Answered], list[int]]) -> None:
    answered, _ = seen
    notes = [note for one in answered for note in one.body["usage"].get("degraded", [])]
    capped = [note for note in notes if note.startswith("length_cap")]
    assert capped
    assert f"at most {CAP - PROMPT} tokens instead of max_tokens {OUTPUT}, memory pressure level " in capped[0]
    assert small.gauge("octavo_requests_capped_total") == len(capped)
