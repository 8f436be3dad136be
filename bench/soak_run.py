"""Keeps requests in flight, counts how they end, and watches the server's memory meanwhile."""

import asyncio
import collections
import contextlib
import dataclasses
import time
from collections.abc import Iterable, Iterator

from bench.soak_client import Client, End, Outcome
from bench.soak_footprint import resident_bytes
from bench.soak_traffic import Ask
from tests.runtime.server.running import RunningServer

SAMPLE_S = 1.0
PROGRESS_S = 5.0
MOST_WRONG = 50  # then the run is given up: it has shown what it can


@dataclasses.dataclass
class Tally:
    """How the requests ended."""

    wanted: int
    ends: collections.Counter[tuple[str, End]] = dataclasses.field(default_factory=collections.Counter)
    wrong: list[str] = dataclasses.field(default_factory=list)
    started_s: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        return self.ends.total()

    @property
    def given_up(self) -> bool:
        return len(self.wrong) >= MOST_WRONG

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started_s

    def add(self, number: int, ask: Ask, outcome: Outcome) -> None:
        self.ends[ask.kind, outcome.end] += 1
        if outcome.end == "wrong":
            self.wrong.append(f"request {number} ({ask.kind}): {outcome.text}; {ask.path} {_shown(ask.body)}")


def _shown(body: bytes) -> str:
    """Options stand at the end, after the prompt."""
    return (
        body.decode(errors="replace")
        if len(body) < 500
        else f"{body[:100].decode(errors='replace')}…{body[-400:].decode(errors='replace')}"
    )


@dataclasses.dataclass
class Memory:
    """Resident bytes of the processes, once a second, as (requests done, bytes)."""

    pids: dict[str, int]
    samples: dict[str, list[tuple[int, int]]] = dataclasses.field(default_factory=lambda: collections.defaultdict(list))

    def sample(self, done: int) -> None:
        for name, pid in self.pids.items():
            with contextlib.suppress(OSError):  # a process that ended is found by its id at the end
                self.samples[name].append((done, resident_bytes(pid)))


async def drive(client: Client, asks: Iterable[Ask], tally: Tally) -> None:
    """Send `asks` until each has ended. Half as many workers again as may be in flight: some sleep for the server was busy."""
    numbered = iter(enumerate(asks))
    async with asyncio.TaskGroup() as group:
        for _ in range(client.concurrency * 3 // 2):
            group.create_task(_work(client, numbered, tally))


async def _work(client: Client, asks: Iterator[tuple[int, Ask]], tally: Tally) -> None:
    for number, ask in asks:
        tally.add(number, ask, await client.outcome(ask))
        if tally.given_up:
            return


async def watch(server: RunningServer, client: Client, tally: Tally, memory: Memory) -> None:
    """Sample and tell progress until cancelled."""
    told_s, told_done, told_wrong = time.monotonic(), 0, 0
    while True:
        memory.sample(tally.done)
        now_s = time.monotonic()
        if now_s - told_s >= PROGRESS_S:
            rate = (tally.done - told_done) / (now_s - told_s)
            lines = [
                *tally.wrong[told_wrong:],
                _progress(tally, rate, client.busy, await asyncio.to_thread(_load, server)),
            ]
            print("\n".join(lines), flush=True)
            told_s, told_done, told_wrong = now_s, tally.done, len(tally.wrong)
        await asyncio.sleep(SAMPLE_S)


def _load(server: RunningServer) -> str:
    try:
        state = server.state()
    except OSError:
        return "no answer to /state"
    return f"running {state['running']}, waiting {state['waiting']}"


def _progress(tally: Tally, rate: float, busy: int, load: str) -> str:
    left_s = (tally.wanted - tally.done) * tally.seconds / max(1, tally.done)
    return (
        f"{tally.done:>9,} of {tally.wanted:,}  {rate:6.1f}/s  {left_s // 60:.0f} min {left_s % 60:02.0f} s left  "
        f"{load}; {busy:,} times busy, {len(tally.wrong)} wrong"
    )
