"""The health port by itself: it answers with no event loop running at all."""

import asyncio
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from octavo_runtime.config import ServeConfig
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.messages import StepOutputs
from octavo_runtime.server.app import build_app
from octavo_runtime.server.drain import Drain, Pace
from octavo_runtime.server.engine_client import EngineClient
from octavo_runtime.server.gauges import Snapshot
from octavo_runtime.server.health_server import HealthServer
from octavo_runtime.server.metrics import Metrics, SnapshotCollector
from octavo_runtime.server.probes import Loop, Probes
from octavo_runtime.server.service import Service
from octavo_runtime.server.supervisor import Supervisor
from octavo_runtime.text.model_text import ModelText
from tests.runtime.server.running import free_ports
from tests.runtime.text.tiny import byte_tokenizer


class Parts:
    """A server's parts, put together but not run."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        config = ServeConfig(model="tiny", run_dir=str(folder))
        self.heartbeat = Heartbeat.open(folder)
        self.heartbeat.reset()
        self.loop = Loop()
        self.later_s = 0.0  # how far the probes' clock is ahead
        metrics = Metrics("tiny", SnapshotCollector("tiny", lambda: Snapshot("loading", None, None, None)))
        self.client = EngineClient(f"ipc://{folder}/engine.sock", on_step)
        self.service = Service(config, ModelText(byte_tokenizer(), None, (), {}), self.client, Drain(), Pace(), metrics)
        supervisor = Supervisor(config, process, self.client, self.heartbeat, metrics.engine_restarted)
        self.probes = Probes(self.service, supervisor, self.heartbeat, self.loop, self.monotonic_s)

    def monotonic_s(self) -> float:
        return time.monotonic() + self.later_s

    def close(self) -> None:
        self.client.close()
        self.heartbeat.close()


def on_step(message: StepOutputs) -> None:
    raise AssertionError(f"no engine, yet {message}")


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        parts = Parts(tmp_path, process)
        yield parts
        process.kill()
        parts.close()


@pytest.fixture
def url(parts: Parts) -> Iterator[str]:
    port, _ = free_ports()
    server = HealthServer("127.0.0.1", port, parts.probes)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_loading_engine_is_alive_and_not_ready(parts: Parts, url: str) -> None:
    parts.heartbeat.progress("loading", 40, "reading weights")
    assert get(f"{url}/live") == (200, "loading: 40 %, reading weights\n")
    assert get(f"{url}/ready") == (503, "loading: 40 %, reading weights\n")
    state = json.loads(get(f"{url}/state?verbose=1")[1])
    assert (state["phase"], state["percent"], state["in_flight"]) == ("loading", 40, 0)


def test_an_event_loop_that_stands_still_is_hung(parts: Parts, url: str) -> None:
    parts.loop.tick_at_s = time.monotonic() - 31
    status, text = get(f"{url}/live")
    assert status == 503
    assert text.startswith("hung: the API's event loop has not moved for 31 s")


def test_metrics_are_there_before_the_engine_is(url: str) -> None:
    status, text = get(f"{url}/metrics")
    assert status == 200
    assert 'octavo_phase{engine="0",model_name="tiny",phase="loading"} 1.0' in text


def test_what_is_not_there_says_what_is(url: str) -> None:
    assert get(f"{url}/v1/models") == (404, "only /live, /ready, /health, /state, /metrics are here\n")


def test_head_tells_what_get_does_without_the_body(url: str) -> None:
    got, head = httpx2.get(f"{url}/ready"), httpx2.head(f"{url}/ready")
    assert (head.status_code, head.headers["content-length"], head.content) == (503, str(len(got.content)), b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_other_methods_are_refused_in_plain_text(url: str, method: str) -> None:
    answer = httpx2.request(method, f"{url}/ready", content=b"{}")
    assert (answer.status_code, answer.headers["allow"], answer.headers["connection"]) == (405, "GET, HEAD", "close")
    assert answer.text == f"{method} is not for this port: /live, /ready, /health, /state, /metrics take GET and HEAD\n"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}, id="chat"),
        pytest.param("/v1/completions", {"prompt": "Hi"}, id="completions"),
    ],
)
def test_a_hung_engine_gets_no_new_requests(parts: Parts, path: str, body: dict[str, object]) -> None:
    app = build_app(parts.service, parts.probes)

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://server") as client:
            return await client.post(path, json={"model": "tiny", **body})

    parts.heartbeat.progress("ready", 100, "")
    assert "the model is not loaded yet" in asyncio.run(ask()).text
    parts.later_s = 31
    answer = asyncio.run(ask())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    error = answer.json()["error"]
    assert error["code"] == "not_ready"
    assert error["message"].startswith("the engine's loop has not moved for 31 s")
