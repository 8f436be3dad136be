"""A long run against a real server that is always short of KV pages and of places in its queue.

    python -m bench.soak --requests 100000

Random lengths, forks, beams, shared prefixes, stop strings, priorities, deadlines; clients that go away at every moment; wrong
requests; and fixed questions whose answers must be the same in any company. Exit code 1 if anything leaked, was lost, or was
answered otherwise than it should be.
"""

import argparse
import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence

from prometheus_client.parser import text_string_to_metric_families

from bench.soak_client import Client
from bench.soak_footprint import Footprint, footprint
from bench.soak_report import Process, Rest, faults, tables
from bench.soak_run import Memory, Tally, drive, watch
from bench.soak_service import MAX_NUM_SEQS, MAX_QUEUED, soak_server
from bench.soak_traffic import FEATURES, Traffic
from tests.runtime.server.running import RunningServer

BLOCKS = "octavo_kv_block_utilization"
CONCURRENCY = (
    MAX_NUM_SEQS + MAX_QUEUED
)  # a little more than what fits: several sequences are one request, and pages run out
SETTLE_S = 30.0  # for the server to notice what went away last
SWITCHES = ("audit", "batch-invariant", "prefix-caching")
COUNTS = {
    "preemptions": "vllm:num_preemptions_total",
    "prompt tokens looked up": "octavo_prefix_queries_tokens_total",
    "of these found in the cache": "octavo_prefix_hits_tokens_total",
    "pages copied on write": "octavo_page_copies_total",
    "tokens generated": "vllm:generation_tokens_total",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parsed = _parser().parse_args(arguments)
    traffic = Traffic(parsed.seed, frozenset(parsed.without))
    switches = [f"--{'' if getattr(parsed, name.replace('-', '_')) else 'no-'}{name}" for name in SWITCHES]
    with soak_server(switches) as server:
        print(
            f"ready: {parsed.requests:,} requests, {parsed.concurrency} in flight, seed {parsed.seed}, {' '.join(switches)}"
        )
        try:
            found = asyncio.run(_soak(server, traffic, parsed.requests, parsed.concurrency))
        except OSError as error:
            found = [f"the server is gone: {error}"]
        if found:
            print(
                "\n".join(
                    ["FAILED", *found, "the end of the server's log:", *server.log.read_text().splitlines()[-20:]]
                )
            )
    if not found:
        print("good: every request ended as it should, and nothing was left behind")
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="soak", description="Run many random requests and look for what they left behind."
    )
    parser.add_argument("--requests", type=int, default=2_000, metavar="N", help="how many (default: 2000)")
    parser.add_argument("--seed", type=int, default=0, help="of the traffic (default: 0)")
    parser.add_argument(
        "--concurrency",
        type=int,
        default=CONCURRENCY,
        metavar="C",
        help=f"in flight (default: {CONCURRENCY})",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=FEATURES,
        help="leave a feature out of the traffic (may be repeated)",
    )
    for name in SWITCHES:
        parser.add_argument(
            f"--{name}",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="as `octavo serve` has it (default: on)",
        )
    return parser


async def _soak(server: RunningServer, traffic: Traffic, requests: int, concurrency: int) -> list[str]:
    """What went wrong; prints progress and the tables. Raises OSError when the server is gone."""
    first: dict[str, tuple[str, ...]] = {}
    async with Client("127.0.0.1", server.port, concurrency, first) as client:
        await _warm(client, traffic)
    pids = _pids(server)
    before = await asyncio.to_thread(_settled, server)
    tally, memory = Tally(requests), Memory(pids)
    own_cpu_s = -time.process_time()
    async with Client("127.0.0.1", server.port, concurrency, first) as client, _watching(server, client, tally, memory):
        await drive(client, (traffic.ask(number) for number in range(requests)), tally)
        seconds = tally.seconds
    own_cpu_s += time.process_time()
    after = await asyncio.to_thread(_settled, server, before)
    pids_after = _pids(server)
    rest = await asyncio.to_thread(_rest, server)
    processes = [Process(name, pids[name], pids_after[name], before[name], after[name]) for name in pids]
    print(tables(tally, processes, memory, rest, client.busy, client.compared))
    rate, own_ms = tally.done / seconds, 1000 * own_cpu_s / tally.done
    print(
        f"{tally.done:,} requests in {seconds:.0f} s: {rate:.1f} a second; the client took {own_ms:.1f} ms of CPU for each"
    )
    return faults(tally, processes, memory, rest)


async def _warm(client: Client, traffic: Traffic) -> None:
    """The fixed questions alone, for their first answers; then enough at once that every pool of threads has its size."""
    questions = traffic.fixed
    tally = Tally(len(questions))
    for question in questions:
        await drive(client, [question], tally)
    crowd = [ask for number in range(-1, -2 * client.concurrency, -1) if (ask := traffic.ask(number)).leave is None]
    tally.wanted += len(crowd)
    await drive(client, crowd, tally)
    if tally.wrong:
        raise SystemExit("\n".join(["FAILED while warming", *tally.wrong]))


@contextlib.asynccontextmanager
async def _watching(server: RunningServer, client: Client, tally: Tally, memory: Memory) -> AsyncIterator[None]:
    watcher = asyncio.create_task(watch(server, client, tally, memory))
    try:
        yield
    finally:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher


def _pids(server: RunningServer) -> dict[str, int]:
    return {"API": server.process.pid, "engine": server.state()["engine"]["pid"]}


def _settled(server: RunningServer, before: dict[str, Footprint] | None = None) -> dict[str, Footprint]:
    """The processes once nothing is in flight and they hold what they held `before` (or, without it, hold the same twice).

    After `SETTLE_S` as they are: then something is left behind, and the report says what.
    """
    deadline_s, held = time.monotonic() + SETTLE_S, before
    while True:
        now = {name: footprint(pid) for name, pid in _pids(server).items()}
        still = held is not None and all(_same(held[name], now[name]) for name in now)
        if (still and _idle(server)) or time.monotonic() > deadline_s:
            return now
        held = before or now
        time.sleep(0.2)


def _idle(server: RunningServer) -> bool:
    state = server.state()
    return not (state["in_flight"] or state["running"] or state["waiting"] or server.gauge(BLOCKS))


def _same(one: Footprint, other: Footprint) -> bool:
    return (len(one.handles), one.sockets, one.threads) == (len(other.handles), other.sockets, other.threads)


def _samples(server: RunningServer) -> dict[str, float]:
    """The metrics without labels of their own."""
    families = text_string_to_metric_families(server.get("/metrics")[1])
    return {sample.name: sample.value for family in families for sample in family.samples}


def _rest(server: RunningServer) -> Rest:
    """What the idle server says; then it is asked to end."""
    state, samples = server.state(), _samples(server)
    counts = {text: samples.get(name, 0.0) for text, name in COUNTS.items()}
    server.signal(signal.SIGTERM)
    return Rest(
        block_utilization=samples[BLOCKS],
        running=state["running"],
        waiting=state["waiting"],
        in_flight=state["in_flight"],
        restarts=state["engine"]["restarts"],
        exit_code=_exit_code(server),
        counts=counts,
    )


def _exit_code(server: RunningServer) -> int:
    """-1 for a server that does not end."""
    try:
        return server.process.wait(SETTLE_S)
    except subprocess.TimeoutExpired:
        return -1


if __name__ == "__main__":
    sys.exit(main())
