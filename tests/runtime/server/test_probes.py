"""The health port by itself: it answers with no event loop running at all."""

import asyncio
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from octavo_runtime.config import ServeConfig
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.messages import EngineInfo, Stats
from octavo_runtime.server.health_server import HealthServer
from octavo_runtime.server.probes import LoadingProbes
from octavo_runtime.server.state import effective_config
from tests.runtime.server.parts import STATS, Parts
from tests.runtime.server.running import free_ports


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
    assert re.match(r"hung: the API's event loop has not moved for 3\d s", text), text


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
    ("blocks", "settled", "now", "reason"),
    [
        pytest.param(100, 64, 64, "", id="as settled"),
        pytest.param(100, 64, 32, "halved: most prompts are longer than 8192 tokens", id="halved"),
        pytest.param(44, 44, 44, "there are 44 blocks, and each sequence needs one", id="few blocks"),
    ],
)
def test_the_effective_configuration_says_how_many_run_at_once_and_why(
    blocks: int, settled: int, now: int, reason: str
) -> None:
    info = EngineInfo(
        "m", "float32", "cpu", 512, 16, blocks, settled, 512, 1 << 20, "reference", 256, False, True, True, 2.5
    )
    stats = Stats(0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, max_num_seqs=now)
    config = effective_config(ServeConfig(model="/models/m.gguf"), info, stats)
    assert (config["max_num_seqs"], config["max_num_seqs_reason"]) == (now, reason)
    assert (config["prefix_caching"], config["chunked_prefill"], config["batch_invariant"]) == (False, True, True)
    assert (config["scheduler_delay_ms"], config["num_blocks"], config["block_size"]) == (2.5, blocks, 16)
    assert (config["model"], config["served_model_name"], config["max_num_queued_reqs"]) == (
        "/models/m.gguf",
        "m",
        1024,
    )


def test_state_tells_blocks_pressure_and_since_when(parts: Parts, url: str) -> None:
    state = json.loads(get(f"{url}/state")[1])
    assert (state["blocks_total"], state["pressure_steps"], state["pressure_since"]) == (None, [], None)
    parts.client.stats = msgspec.structs.replace(STATS, pressure_level=2, blocks_cached=7, predicted_deficit_blocks=3)
    parts.loop.pressure.sample(1, 1_795_000_000.5)
    parts.loop.pressure.sample(2, 1_795_000_060.0)
    state = json.loads(get(f"{url}/state")[1])
    assert (state["pressure_level"], state["pressure_steps"]) == (2, ["strict_admission", "demote"])
    assert state["pressure_since"] == "2026-11-18T11:06:40Z"
    blocks = [state[name] for name in ("blocks_total", "blocks_used", "blocks_cached", "predicted_deficit_blocks")]
    assert blocks == [100, 2, 7, 3]
    parts.client.stats = STATS
    parts.loop.pressure.sample(0, 1_795_000_120.0)
    assert json.loads(get(f"{url}/state")[1])["pressure_since"] is None


def test_state_tells_how_long_nothing_has_moved_while_loading(parts: Parts, url: str) -> None:
    parts.heartbeat.progress("loading", 40, "downloading")
    parts.later_s = 120
    parts.loop.tick_at_s += 120
    state = json.loads(get(f"{url}/state")[1])
    assert 120 <= state["progress_age_s"] < 130
    parts.heartbeat.progress("ready", 100, "")
    assert json.loads(get(f"{url}/state")[1])["progress_age_s"] is None


def test_state_is_small(parts: Parts, url: str) -> None:
    assert len(get(f"{url}/state")[1]) < 8 << 10


def test_before_there_is_a_server_the_probes_tell_of_the_download(tmp_path: Path) -> None:
    config = ServeConfig("hf://org/name@v1", api_key_file="/secret/keys")
    heartbeat = Heartbeat.open(tmp_path)
    heartbeat.reset()
    probes = LoadingProbes(config, heartbeat)
    heartbeat.progress("loading", 30, "downloading hf://org/name@v1: 3.00 GiB of 10.00 GiB")

    def ask(path: str) -> tuple[int, str]:
        answer = probes.answer(path)
        assert answer is not None
        return answer.status, answer.body.decode()

    assert ask("/live") == (200, "loading: 30 %, downloading hf://org/name@v1: 3.00 GiB of 10.00 GiB\n")
    assert ask("/ready")[0] == 503
    state = json.loads(ask("/state")[1])
    assert (state["phase"], state["percent"], state["blocks_total"]) == ("loading", 30, None)
    assert state["model"] == {"source": "hf://org/name@v1", "revision": None}
    assert 'phase="loading"} 1.0' in ask("/metrics")[1]
    assert probes.answer("/v1/models") is None
    heartbeat.close()


@pytest.mark.parametrize(
    ("kept", "values"), [pytest.param("int8", "int8", id="alike"), pytest.param("bfloat16/int8", "int8", id="apart")]
)
def test_the_effective_configuration_says_what_values_are_kept_as(kept: str, values: str) -> None:
    info = EngineInfo(
        "m", "float32", "cpu", 512, 16, 9, 9, 512, 1, "reference", 256, True, True, True, 0, kv_cache_dtype=kept
    )
    config = effective_config(ServeConfig(model="m"), info, None)
    assert (config["kv_cache_dtype"], config["kv_cache_dtype_v"]) == (kept, values)


def test_what_the_engine_has_not_settled_yet_is_as_configured() -> None:
    config = effective_config(ServeConfig(model="m"), None, None)
    assert (config["max_num_seqs"], config["block_size"], config["max_num_seqs_reason"]) == (None, "auto", "")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}, id="chat"),
        pytest.param("/v1/completions", {"prompt": "Hi"}, id="completions"),
    ],
)
def test_a_hung_engine_gets_no_new_requests(parts: Parts, path: str, body: dict[str, object]) -> None:
    async def ask() -> httpx2.Response:
        async with parts.http() as client:
            return await client.post(path, json={"model": "tiny", **body})

    parts.heartbeat.progress("ready", 100, "")
    assert "the model is not loaded yet" in asyncio.run(ask()).text
    parts.later_s = 31
    answer = asyncio.run(ask())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    error = answer.json()["error"]
    assert error["code"] == "not_ready"
    assert re.match(r"the engine's loop has not moved for 3\d s", error["message"]), (
        error
    )  # a busy machine takes its time
