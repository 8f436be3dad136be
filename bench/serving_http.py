"""Serving over HTTP for `bench serving`: one client program, every request a stream of its own, all of them open at once.

The server is a real `octavo serve` with the defaults that users get, or any running one whose `/v1/completions` takes prompts as
token ids and sends `usage` at the end of a stream.
"""

import asyncio
import contextlib
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from bench.serving_measure import Generate, measured
from bench.serving_result import Result
from bench.workload import Request, mixed
from tests.runtime.server.running import free_ports

READY_TIMEOUT_S = 300.0
END_TIMEOUT_S = 30.0
_POLL_S = 0.02
_DATA, _EVENT = b"data: ", b"data: {"


@dataclasses.dataclass(frozen=True)
class Target:
    """A server, the name of its model, and what a request must say beyond OpenAI's fields (`ignore_eos`)."""

    url: str
    model: str
    fields: dict[str, Any]


def own_server(model: Path, requests: int, repeats: int) -> Result:
    """Starts the server; ready is when `/ready` says so."""
    with tempfile.TemporaryDirectory(prefix="octavo-bench-") as folder, _started(model, Path(folder)) as server:
        ready_s = server.wait_ready()
        work = mixed(requests, vocab_size=server.vocab_size())
        target = Target(f"http://127.0.0.1:{server.port}", _Server.MODEL, {"ignore_eos": True})
        return measured("octavo http", ready_s, generating(target, salted=True), work, repeats)


def running_server(target: Target, requests: int, repeats: int) -> Result:
    return measured(target.model, None, generating(target, salted=False), mixed(requests), repeats)


def generating(target: Target, salted: bool) -> Generate:
    """Requests that ignore the end of sequence; `salted` ones with the cache salt, a field that not every server knows."""

    def generate(work: Sequence[Request], salt: str) -> int:
        bodies = [_body(target, request, salt if salted else None) for request in work]
        return asyncio.run(_all_at_once(target.url, bodies))

    return generate


def _body(target: Target, request: Request, salt: str | None) -> bytes:
    prompt, output = request
    fields = {"model": target.model, "prompt": prompt, "max_tokens": output, "temperature": 0, "stream": True}
    fields |= {"stream_options": {"include_usage": True}} | target.fields | ({"cache_salt": salt} if salt else {})
    return json.dumps(fields).encode()


async def _all_at_once(url: str, bodies: Sequence[bytes]) -> int:
    connections = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=connections, timeout=aiohttp.ClientTimeout()) as session:
        return sum(await asyncio.gather(*(_stream(session, body) for body in bodies)))


async def _stream(session: aiohttp.ClientSession, body: bytes) -> int:
    """The tokens that the stream's `usage` counts, which the last event tells. Raises RuntimeError on any other answer."""
    last = b""
    headers = {"content-type": "application/json"}
    async with session.post("/v1/completions", data=body, headers=headers) as response:
        if response.status != 200:
            raise RuntimeError(f"the server answered {response.status}: {(await response.text())[:300]}")
        async for line in response.content:
            if line.startswith(_EVENT):
                last = line  # only the last is parsed: the client shares the CPUs with the server
    usage = json.loads(last.removeprefix(_DATA) or b"{}").get("usage")
    if not usage:
        raise RuntimeError("the stream ended without a usage: the server does not honour stream_options.include_usage")
    return int(usage["completion_tokens"])


@dataclasses.dataclass(frozen=True)
class _Server:
    """A child `octavo serve`."""

    MODEL = "bench"
    process: "subprocess.Popen[bytes]"
    port: int
    health_port: int
    log: Path
    started_s: float

    def wait_ready(self) -> float:
        """Seconds from its start to ready. Raises RuntimeError with its log's end if it ends or takes too long."""
        while self._status("/ready") != 200:
            took_s = time.monotonic() - self.started_s
            if self.process.poll() is not None or took_s > READY_TIMEOUT_S:
                raise RuntimeError(
                    f"no ready server after {took_s:.0f} s; its log ends: {self.log.read_text()[-2000:]}"
                )
            time.sleep(_POLL_S)
        return time.monotonic() - self.started_s

    def vocab_size(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/state", timeout=10) as response:
            return int(json.load(response)["config"]["vocab_size"])

    def _status(self, path: str) -> int:
        """0 while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}{path}", timeout=10) as response:
                return int(response.status)
        except OSError as error:  # urllib's HTTPError is one: it is an answer
            return int(getattr(error, "code", 0))


@contextlib.contextmanager
def _started(model: Path, folder: Path) -> Iterator[_Server]:
    port, health_port = free_ports()
    command = [sys.executable, "-m", "octavo_runtime", "serve", str(model), "--served-model-name", _Server.MODEL]
    command += ["--host", "127.0.0.1", "--port", str(port), "--health-port", str(health_port)]
    command += ["--run-dir", str(folder / "run"), "--drain-timeout", "0"]
    log, started_s = folder / "log", time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield _Server(process, port, health_port, log, started_s)
    finally:
        process.terminate()
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
