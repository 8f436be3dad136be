"""What happens around requests: clients that go away, an engine that dies, drains and signals. All against real processes."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.kernels.cpu.available import cpu_kernels_run
from tests.runtime.server.running import START_TIMEOUT_S, RunningServer, running_server, started_server, status, until
from tests.runtime.server.streams import Stream


def drain(server: RunningServer, *flags: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "octavo_runtime", "drain", "--run-dir", str(server.run_dir), *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def is_idle(server: RunningServer) -> bool:
    return server.state()["in_flight"] == 0 and server.gauge("octavo_kv_block_utilization") == 0


@contextmanager
def kept(server: RunningServer) -> Iterator[http.client.HTTPConnection]:
    """A connection that stays open after its first answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    assert asked_again(connection) is None
    yield connection
    connection.close()


def asked_again(connection: http.client.HTTPConnection) -> str | None:
    """What a short answer on the connection says of its further use."""
    body = {"model": "tiny", "prompt": "Hi", "max_tokens": 1}
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    with connection.getresponse() as answer:
        assert answer.status == 200, answer.read()
        answer.read()
        return answer.headers["connection"]


def finish_reason(server: RunningServer, max_tokens: int) -> str:
    with Stream(server, max_tokens) as stream:
        return str(stream.begin().rest()[-1]["choices"][0]["finish_reason"])


def has_ended(pid: int) -> bool:
    """Gone, or a zombie that its new parent has not collected yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_health_and_state_are_the_same_on_both_ports(server: RunningServer) -> None:
    for path in ("/live", "/ready", "/health"):
        assert server.get(path) == server.get(path, health=False) == (200, "ready\n")
    assert server.get("/nothing")[0] == 404
    state = server.state()
    assert (state["phase"], state["percent"], state["drain"]["phase"]) == ("ready", 100, "serving")
    assert state["config"]["served_model_name"] == "tiny"
    assert state["config"]["num_blocks"] > 0
    assert state["config"]["compute"].startswith("cpu-") == cpu_kernels_run()
    assert state["last_step_age_s"] < 30


def test_metrics_have_the_agreed_names_and_types(server: RunningServer) -> None:
    until(lambda: "octavo_kv_available_volatility" in server.get("/metrics")[1])  # sampled once a second
    families = {
        family.name: family.type for family in text_string_to_metric_families(server.get("/metrics", health=False)[1])
    }
    agreed = {
        "vllm:num_requests_running": "gauge",
        "vllm:num_requests_waiting": "gauge",
        "vllm:kv_cache_usage_perc": "gauge",
        "vllm:cache_config_info": "gauge",
        "vllm:time_to_first_token_seconds": "histogram",
        "vllm:inter_token_latency_seconds": "histogram",
        "vllm:e2e_request_latency_seconds": "histogram",
        "vllm:num_preemptions": "counter",
        "vllm:request_success": "counter",
        "vllm:prefix_cache_queries": "counter",
        "vllm:prefix_cache_hits": "counter",
        "vllm:request_params_n": "histogram",
        "vllm:prompt_tokens": "counter",
        "vllm:generation_tokens": "counter",
        "octavo_kv_block_utilization": "gauge",
        "octavo_kv_slot_utilization": "gauge",
        "octavo_kv_available_volatility": "gauge",
        "octavo_kv_cached_blocks": "gauge",
        "octavo_predicted_peak_blocks": "gauge",
        "octavo_predicted_deficit_blocks": "gauge",
        "octavo_requests_waiting": "gauge",
        "octavo_max_num_seqs": "gauge",
        "octavo_prefix_queries_tokens": "counter",
        "octavo_prefix_hits_tokens": "counter",
        "octavo_page_copies": "counter",
        "octavo_kv_evicted_tokens": "counter",
        "octavo_output_length_over_forecast": "histogram",
        "octavo_batch_size": "histogram",
        "octavo_engine_busy_seconds": "counter",
        "octavo_phase": "gauge",
        "octavo_info": "gauge",
    }
    assert {name: families.get(name) for name in agreed} == agreed


@pytest.mark.parametrize("stream", [pytest.param(True, id="streamed"), pytest.param(False, id="not streamed")])
def test_a_client_that_goes_away_leaves_nothing_behind(server: RunningServer, stream: bool) -> None:
    with Stream(server, stream=stream) as request:
        until(lambda: server.gauge("vllm:num_requests_running") == 1)
        request.kill()
        until(lambda: is_idle(server))


def test_the_health_port_answers_while_the_engine_stands_still(server: RunningServer) -> None:
    engine = server.state()["engine"]["pid"]
    os.kill(engine, signal.SIGSTOP)
    try:
        assert server.get("/live") == (200, "ready\n")
        assert server.state()["engine"]["pid"] == engine
    finally:
        os.kill(engine, signal.SIGCONT)


def test_a_killed_engine_ends_streams_with_an_error_and_comes_back(server: RunningServer) -> None:
    before = server.state()["engine"]
    with Stream(server) as stream:
        stream.begin()
        os.kill(before["pid"], signal.SIGKILL)
        error = stream.rest()[-1]["error"]
    assert (error["type"], error["code"]) == ("server_error", "engine_failed")
    assert "SIGKILL" in error["message"]
    assert server.get("/ready")[0] == 503
    until(lambda: server.get("/ready")[0] == 200, START_TIMEOUT_S)
    after = server.state()["engine"]
    assert (after["restarts"], after["pid"] != before["pid"]) == (before["restarts"] + 1, True)
    assert finish_reason(server, max_tokens=3) == "length"


def test_a_drain_lets_streams_finish_and_refuses_new_requests_and_sigterm_does_not_settle_again(
    server: RunningServer,
) -> None:
    with Stream(server, max_tokens=1500) as stream, kept(server) as busy, kept(server) as idle:
        stream.begin()
        draining = drain(server, "--settle", "3", "--timeout", "120")
        until(lambda: server.state()["drain"]["phase"] == "settling")
        assert server.get("/ready")[0] == 200
        assert finish_reason(server, max_tokens=1) == "length"
        assert asked_again(busy) == "close", "who comes again comes by a new connection, to another replica"
        until(lambda: server.get("/ready")[0] == 503)
        with Stream(server) as late:
            refused = late.response()
            assert (refused.status, refused.headers["retry-after"], refused.headers["connection"]) == (
                503,
                "1",
                "close",
            )
        assert asked_again(idle) == "close", "what comes by a connection that nobody was told to leave is answered"
        assert stream.rest()[-1]["choices"][0]["finish_reason"] == "length"
        assert asked_again(stream.connection) == "close", "its answer began before the drain, so it could not say so"
    output, _ = draining.communicate(timeout=120)
    assert draining.returncode == 0, output
    assert "settling: new requests are still answered" in output
    assert output.endswith("drained: nothing in flight\n")
    server.signal(signal.SIGTERM)
    assert server.process.wait(60) == 0


def test_sigterm_waits_for_a_stream_and_exits_with_0(tiny_chat_model: Path, tmp_path: Path) -> None:
    with running_server(tiny_chat_model, tmp_path, "--drain-timeout", "120") as server:
        engine = server.state()["engine"]["pid"]
        with Stream(server, max_tokens=1000) as stream:
            stream.begin()
            server.signal(signal.SIGTERM)
            assert stream.rest()[-1]["choices"][0]["finish_reason"] == "length"
        assert server.process.wait(60) == 0
        assert not Path(f"/proc/{engine}").exists()


def test_a_full_queue_says_when_to_ask_again_and_a_drain_that_is_too_short_ends_streams_with_an_error(
    tiny_chat_model: Path, tmp_path: Path
) -> None:
    flags = ["--max-num-seqs", "1", "--max-num-queued-reqs", "1", "--drain-timeout", "0.2"]
    with running_server(tiny_chat_model, tmp_path, *flags) as server:
        # One after another: sent at once they reach the engine in any order, and another one is refused.
        with Stream(server) as running:
            running.begin()
            with Stream(server):
                until(lambda: server.state()["waiting"] == 1)
                with Stream(server) as refused:
                    answer = refused.response()
                    assert (answer.status, answer.headers["retry-after"]) == (503, "3")  # one has left the queue so far
                    assert "--max-num-queued-reqs" in json.loads(answer.read())["error"]["message"]
                server.signal(signal.SIGTERM)
                assert running.rest()[-1]["error"]["message"] == "the server is stopping"
        assert server.process.wait(60) == 0


def test_a_second_signal_ends_at_once(tiny_chat_model: Path, tmp_path: Path) -> None:
    with running_server(tiny_chat_model, tmp_path) as server, Stream(server) as stream:
        stream.begin()
        server.signal(signal.SIGINT)
        until(lambda: server.state()["phase"] == "draining")
        server.signal(signal.SIGINT)
        assert server.process.wait(60) == 1


def test_a_killed_server_takes_its_engine_along(tiny_chat_model: Path, tmp_path: Path) -> None:
    with started_server(tiny_chat_model, tmp_path) as server:
        until(lambda: status(server, "/live"), START_TIMEOUT_S)
        engine = server.state()["engine"]["pid"]
        assert not has_ended(engine)
        server.signal(signal.SIGKILL)
        server.process.wait(60)
        until(lambda: has_ended(engine))


def test_the_reason_why_an_engine_could_not_start_is_the_last_line_and_told_once(
    tiny_chat_model: Path, tmp_path: Path
) -> None:
    with started_server(tiny_chat_model, tmp_path, "--tensor-parallel-size", "3") as server:
        assert server.process.wait(START_TIMEOUT_S) == 1
        log = server.log.read_text()
    reason = (
        "--tensor-parallel-size 3: the model's 8 attention heads, 2 KV heads, MLP of 128 and 259 tokens cannot be shared evenly by "
        "3 ranks: give one of 1, 2, 4, 8"
    )
    assert log.splitlines()[-1].endswith(f"the engine could not start: {reason}")
    assert log.count("cannot be shared evenly") == 1
    assert f"drain with: octavo drain --run-dir {server.run_dir}" in log


def test_a_model_that_cannot_be_read_ends_the_server_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(100))
    command = [
        sys.executable,
        "-m",
        "octavo_runtime",
        "serve",
        str(tmp_path / "broken.gguf"),
        "--run-dir",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
    assert done.returncode == 2
    assert "GGUF version 0" in done.stderr
    assert "Traceback" not in done.stderr
