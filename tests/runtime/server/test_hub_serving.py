"""`octavo serve hf://…` as a real process: what the health port says while the model comes, and that it answers then."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo_runtime.source.hub import CHUNK_BYTES
from tests.runtime.hub import Hub, Repository, running_hub
from tests.runtime.server.running import free_ports, is_ready, started_server, status, until

COMMIT = "1" * 40
READY_S = 180.0


@pytest.fixture
def hub(tiny_chat_model: Path) -> Iterator[Hub]:
    with running_hub({"org/tiny": Repository.of(tiny_chat_model, token="hf_secret")}) as hub:
        yield hub


@pytest.fixture
def flags(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of a server that may read the hub's model."""
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    token = tmp_path / "token"
    token.write_text("hf_secret\n")
    return ["--model-cache", str(tmp_path / "cache"), "--hub-token-file", str(token)]


def test_a_hubs_model_comes_while_probes_are_answered_and_is_served(hub: Hub, tmp_path: Path, flags: list[str]) -> None:
    hub.gate = threading.Event()
    hub.cut_after["model.safetensors"] = [CHUNK_BYTES + 5]
    with started_server("hf://org/tiny", tmp_path, *flags) as server:
        until(lambda: status(server, "/live") == 200, READY_S)
        until(lambda: "downloading" in server.state()["reason"], READY_S)
        loading = server.state()
        assert (loading["phase"], loading["ready"], loading["config"]["max_num_seqs"]) == ("loading", False, None)
        assert loading["model"] == {"source": "hf://org/tiny", "revision": None}
        assert status(server, "/ready") == 503
        hub.gate.set()
        until(lambda: is_ready(server), READY_S)
        ready = server.state()
        assert ready["model"] == {"source": "hf://org/tiny", "revision": COMMIT}
        assert (ready["phase"], ready["blocks_used"], ready["blocks_total"]) == (
            "ready",
            0,
            ready["config"]["num_blocks"],
        )
        body = json.dumps({"model": "tiny", "prompt": "Hi", "max_tokens": 2}).encode()
        request = urllib.request.Request(f"{server.url}/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["usage"]["completion_tokens"] in (1, 2)
    assert hub.ranges("model.safetensors") == [None, f"bytes={CHUNK_BYTES}-"]


def test_a_commit_that_the_cache_has_is_served_without_the_hub(
    hub: Hub, tiny_chat_model: Path, tmp_path: Path, flags: list[str]
) -> None:
    shutil.copytree(tiny_chat_model, tmp_path / "cache" / "org--tiny" / COMMIT)
    with started_server(f"hf://org/tiny@{COMMIT}", tmp_path, *flags) as server:
        until(lambda: is_ready(server), READY_S)
        assert server.state()["model"]["revision"] == COMMIT
    assert hub.asked == []


def test_a_download_that_is_stopped_ends_at_once(hub: Hub, tmp_path: Path, flags: list[str]) -> None:
    hub.gate = threading.Event()
    with started_server("hf://org/tiny", tmp_path, *flags) as server:
        until(lambda: status(server, "/live") == 200, READY_S)
        until(lambda: any(path.suffix == ".part" for path in (tmp_path / "cache").rglob("*")), READY_S)
        server.signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    hub.gate.set()
    assert not (tmp_path / "cache" / "org--tiny" / COMMIT).exists()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param("hf://org/other", "has no repository org/other that may be read with the given token", id="name"),
        pytest.param("hf://org/tiny@v9", "has no revision 'v9'", id="revision"),
    ],
)
def test_what_cannot_be_had_is_the_last_line(flags: list[str], source: str, text: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "octavo_runtime", "serve", source, *flags, "--host", "127.0.0.1", "--health-port"]
    done = subprocess.run(
        [*command, str(free_ports()[0]), "--run-dir", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )
    assert done.returncode == 2
    assert text in done.stderr.splitlines()[-1]
