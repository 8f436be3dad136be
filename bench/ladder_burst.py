"""The burst of `bench ladder`: what is asked, how one client asks it, and what the server shows meanwhile."""

import asyncio
import contextlib
import dataclasses
import json
import random
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.runtime.server.running import RunningServer

SAMPLE_S = 0.1
SPREAD_S = 2.0  # within which all of the burst arrives
PATIENCE_S = 300.0  # a request without an end by then is lost
_LONGEST_PAUSE_S = 5.0  # a client of the benchmark comes back sooner than it is told, if that is later
_SETTLE_SAMPLES = 300
_GAUGES = {
    "level": "octavo_pressure_level",
    "used": "octavo_kv_block_utilization",
    "cached": "octavo_kv_cached_blocks",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "preemptions": "vllm:num_preemptions_total",
    "ahead": "octavo_preempted_ahead_total",
}


@dataclasses.dataclass(frozen=True)
class Wanted:
    """One request: its prompt, how much it generates, when it comes."""

    prompt: list[int]
    output: int
    arrives_s: float


@dataclasses.dataclass
class Got:
    """What became of it. Times are from the burst's beginning."""

    wanted: Wanted
    refused_s: list[float] = dataclasses.field(default_factory=list)
    first_s: float | None = None
    ended_s: float | None = None
    tokens: int = 0
    degraded: list[str] = dataclasses.field(default_factory=list)
    wrong: str = ""

    @property
    def latency_s(self) -> float:
        assert self.ended_s is not None
        return self.ended_s - self.wanted.arrives_s

    @property
    def capped(self) -> bool:
        return any(note.startswith("length_cap") for note in self.degraded)


@dataclasses.dataclass(frozen=True)
class Sample:
    """What `/metrics` showed."""

    at_s: float
    values: dict[str, float]


@dataclasses.dataclass
class Burst:
    """One run of it. `others`: the share of the CPUs that others took meanwhile."""

    got: list[Got]
    samples: list[Sample]
    others: float = 0.0

    @property
    def wall_s(self) -> float:
        return max((one.ended_s for one in self.got if one.ended_s is not None), default=0.0)

    def counted(self, name: str) -> float:
        """What a counter has gone up by."""
        return self.samples[-1].values[name] - self.samples[0].values[name]


def burst(capacity_tokens: int, pools: float, vocab_size: int, seed: int) -> list[Wanted]:
    """So many pools full of requests: nine in ten are short, one in ten generates ten times as much."""
    chance, wanted, tokens = random.Random(seed), [], 0
    prompt, short = max(4, capacity_tokens // 24), max(4, capacity_tokens // 48)
    while tokens < pools * capacity_tokens:
        length = chance.randint(prompt // 2, 2 * prompt)
        output = chance.randint(short // 2, 2 * short) * (10 if chance.random() < 0.1 else 1)
        ids = [chance.randrange(vocab_size) for _ in range(length)]
        wanted.append(Wanted(ids, output, chance.random() * SPREAD_S))
        tokens += length + output
    return sorted(wanted, key=lambda one: one.arrives_s)


def ordinary(capacity_tokens: int, count: int, vocab_size: int, seed: int) -> list[Wanted]:
    """Short requests, one after another, from which the server learns how long outputs are."""
    short = max(4, capacity_tokens // 48)
    chance = random.Random(seed)
    return [
        Wanted([chance.randrange(vocab_size) for _ in range(4)], chance.randint(short // 2, 2 * short), 0.0)
        for _ in range(count)
    ]


async def run(server: RunningServer, model: str, wanted: Sequence[Wanted], settle: bool) -> Burst:
    """Ask all of it; with `settle`, watch until the level is 0 again."""
    began_s = time.monotonic()
    samples: list[Sample] = []
    async with _session(server.url) as session, _session(f"http://127.0.0.1:{server.health_port}") as health:
        watching = asyncio.create_task(_watch(health, began_s, samples))
        try:
            got = await asyncio.gather(*(_ask(session, model, one, began_s) for one in wanted))
            for _ in range(_SETTLE_SAMPLES if settle else 0):
                await asyncio.sleep(SAMPLE_S)
                if samples[-1].values["level"] == 0:
                    break
            samples.append(await _sample(health, began_s))
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    return Burst(list(got), samples)


@contextlib.asynccontextmanager
async def _session(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    connections = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=connections, timeout=aiohttp.ClientTimeout()) as session:
        yield session


async def _ask(session: aiohttp.ClientSession, model: str, wanted: Wanted, began_s: float) -> Got:
    """Ask until it is answered; a refusal that says when to come back is not the end."""
    got = Got(wanted)
    await asyncio.sleep(max(0.0, began_s + wanted.arrives_s - time.monotonic()))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                pause_s = await _once(session, model, got, began_s)
                if pause_s is None:
                    break
                await asyncio.sleep(min(pause_s, _LONGEST_PAUSE_S))
    except TimeoutError:
        got.wrong = f"no end after {PATIENCE_S:g} s"
    return got


async def _once(session: aiohttp.ClientSession, model: str, got: Got, began_s: float) -> float | None:
    """Seconds after which to ask again; None when the request has ended."""
    body = {"model": model, "prompt": got.wanted.prompt, "max_tokens": got.wanted.output, "temperature": 0}
    body |= {"ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
    async with session.post("/v1/completions", json=body) as response:
        if response.status == 503 and "retry-after" in response.headers:
            got.refused_s.append(time.monotonic() - began_s)
            return float(response.headers["retry-after"])
        if response.status != 200:
            got.wrong = f"{response.status}: {(await response.text())[:200]}"
            return None
        await _read(response, got, began_s)
        return None


async def _read(response: aiohttp.ClientResponse, got: Got, began_s: float) -> None:
    async for line in response.content:
        if not line.startswith(b"data: {"):
            continue
        event: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
        if "error" in event:
            got.wrong = event["error"]["message"]
            return
        if event["choices"] and got.first_s is None:
            got.first_s = time.monotonic() - began_s
        if usage := event.get("usage"):
            got.tokens, got.degraded = usage["completion_tokens"], usage.get("degraded", [])
            got.ended_s = time.monotonic() - began_s
    if got.ended_s is None:
        got.wrong = "the stream ended without a usage"


async def _watch(session: aiohttp.ClientSession, began_s: float, samples: list[Sample]) -> None:
    while True:
        samples.append(await _sample(session, began_s))
        await asyncio.sleep(SAMPLE_S)


async def _sample(session: aiohttp.ClientSession, began_s: float) -> Sample:
    async with session.get("/metrics") as response:
        text = await response.text()
    found = {one.name: one.value for family in text_string_to_metric_families(text) for one in family.samples}
    return Sample(time.monotonic() - began_s, {name: found.get(metric, 0.0) for name, metric in _GAUGES.items()})
