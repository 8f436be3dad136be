"""The health port by itself: it answers with no event loop running at all."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo_runtime.config import ServeConfig
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.messages import StepOutputs
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
        metrics = Metrics("tiny", SnapshotCollector("tiny", lambda: Snapshot("loading", None, None, None)))
        self.client = EngineClient(f"ipc://{folder}/engine.sock", on_step)
        service = Service(config, ModelText(byte_tokenizer(), None, (), {}), self.client, Drain(), Pace(), metrics)
        supervisor = Supervisor(config, process, self.client, self.heartbeat, metrics.engine_restarted)
        self.probes = Probes(service, supervisor, self.heartbeat, self.loop)

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
