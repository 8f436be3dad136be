"""A real `octavo serve` as a child process, on a seeded tiny chat model whose tokens are bytes.

The model's answers are noise that seldom ends by itself: what the tests need to look at is the server around it.
"""

import contextlib
import dataclasses
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families

T = TypeVar("T")

START_TIMEOUT_S = 180.0


@dataclasses.dataclass(frozen=True)
class RunningServer:
    process: "subprocess.Popen[bytes]"
    port: int
    health_port: int
    run_dir: Path
    log: Path
    name: str = "tiny"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, health: bool = True) -> tuple[int, str]:
        """Status and body from the health port, or from the API's."""
        try:
            port = self.health_port if health else self.port
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.get("/state")[1])
        return state

    def gauge(self, name: str) -> float:
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return next(sample.value for family in families for sample in family.samples if sample.name == name)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


def until(true: Callable[[], T], timeout_s: float = 60.0) -> T:
    """Ask until the answer is true; fails after the timeout with the last answer."""
    deadline_s = time.monotonic() + timeout_s
    while not (answer := true()):
        assert time.monotonic() < deadline_s, f"still {answer!r} after {timeout_s} s"
        time.sleep(0.02)
    return answer


@contextlib.contextmanager
def running_server(model: Path | str, folder: Path, *flags: str) -> Iterator[RunningServer]:
    """A server that is ready; ended whatever happens. The log is shown when it does not come up."""
    with started_server(model, folder, *flags) as server:
        until(lambda: is_ready(server), START_TIMEOUT_S)
        yield server


@contextlib.contextmanager
def started_server(model: Path | str, folder: Path, *flags: str) -> Iterator[RunningServer]:
    """A server that is just loading."""
    port, health_port = free_ports()
    run_dir, log = folder / "run", folder / "log"
    ports = ["--host", "127.0.0.1", "--port", str(port), "--health-port", str(health_port), "--run-dir", str(run_dir)]
    command = [sys.executable, "-m", "octavo_runtime", "serve", str(model), *ports, "--served-model-name", "tiny"]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, "--kv-cache-memory", "64Mi", *flags], stdout=output, stderr=output)
    try:
        yield RunningServer(process, port, health_port, run_dir, log)
    finally:
        process.kill()
        process.wait()


def is_ready(server: RunningServer) -> bool:
    return status(server, "/ready") == 200


def status(server: RunningServer, path: str) -> int:
    """0 while the health port is not open."""
    assert server.process.poll() is None, server.log.read_text()
    try:
        return server.get(path)[0]
    except OSError:
        return 0


def free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def post(server: RunningServer, path: str, body: object) -> tuple[int, str]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
