"""One start of `octavo serve` for `bench start`, timed by its heartbeat and its answers."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from octavo_runtime.heartbeat import Heartbeat, Pulse
from tests.runtime.server.running import free_ports

TIMEOUT_S = 300.0
_POLL_S = 0.005
_PROMPT = [1, 2, 3, 4]


def serve_once(model: Path, cache: Path, cold: bool) -> dict[str, float]:
    """When each phase ended, in seconds from the process's start. `cache`: the folder of packed weights."""
    if cold:
        drop(model)
        drop(cache)
    with tempfile.TemporaryDirectory(prefix="octavo-start-") as run_dir:
        return _timed(model, str(cache), Path(run_dir))


def pack(model: Path, cache: Path) -> None:
    """Into the folder, if it lacks it."""
    command = [sys.executable, "-m", "octavo_runtime", "preload", str(model), "--weights-cache", str(cache), "--once"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=environment())


@contextlib.contextmanager
def preloading(model: Path, cache: Path) -> Iterator[None]:
    """While `octavo preload` holds the model."""
    command = [sys.executable, "-m", "octavo_runtime", "preload", str(model), "--weights-cache", str(cache)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment())
    try:
        deadline_s = time.monotonic() + TIMEOUT_S
        status = [*command[:3], "preload", "--status", "--weights-cache", str(cache)]
        while subprocess.run(status, capture_output=True, check=False).returncode:
            assert process.poll() is None, "octavo preload has ended"
            assert time.monotonic() < deadline_s, "octavo preload does not come up"
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def drop(path: Path) -> None:
    """The file, or the folder's files, from the page cache, so far as nobody maps them."""
    for file in path.iterdir() if path.is_dir() else [path]:
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)  # what is not written yet cannot be dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def environment() -> dict[str, str]:
    """With compiled modules kept, as installed packages have them."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _timed(model: Path, cache: str, run_dir: Path) -> dict[str, float]:
    port, health_port = free_ports()
    ports = ["--host", "127.0.0.1", "--port", str(port), "--health-port", str(health_port), "--run-dir", str(run_dir)]
    flags = [*ports, "--served-model-name", "model", "--weights-cache", cache]
    command = [sys.executable, "-m", "octavo_runtime", "serve", str(model), *flags]
    heartbeat = Heartbeat.open(run_dir)
    started_s = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment())
    try:
        ended: dict[str, float] = {}
        while len(ended) < 3:
            pulse, now_s = heartbeat.read(), time.monotonic() - started_s
            _note(ended, pulse, now_s)
            _check(process, now_s)
            time.sleep(_POLL_S)
        while not _is_ready(health_port):
            _check(process, time.monotonic() - started_s)
            time.sleep(_POLL_S)
        ended["ready"] = time.monotonic() - started_s
        _one_token(port)
        ended["first token"] = time.monotonic() - started_s
        return ended
    finally:
        heartbeat.close()
        process.terminate()
        process.wait()


def _note(ended: dict[str, float], pulse: Pulse, now_s: float) -> None:
    """Which phases have ended by now: the engine tells a reason as soon as its imports are done."""
    begun = {
        "imports": bool(pulse.reason),
        "weights and KV": pulse.phase != "loading",
        "warm-up": pulse.phase == "ready",
    }
    for phase, is_over in begun.items():
        if is_over or pulse.phase == "ready":
            ended.setdefault(phase, now_s)


def _check(process: "subprocess.Popen[bytes]", now_s: float) -> None:
    if process.poll() is not None or now_s > TIMEOUT_S:
        raise RuntimeError(f"octavo serve is not ready after {now_s:.0f} s (exit code {process.poll()})")


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=1):
            return True
    except OSError:  # also a status of 503
        return False


def _one_token(port: int) -> None:
    body = json.dumps({"model": "model", "prompt": _PROMPT, "max_tokens": 1, "temperature": 0}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body, headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        assert json.load(answer)["usage"]["completion_tokens"] == 1
