"""`octavo preload` as a real process, and what it holds."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo_runtime.cli import main
from octavo_runtime.engine import packing
from octavo_runtime.preload.holding import Holding
from octavo_runtime.preload.status import Status, ask
from octavo_runtime.source.cache import CachedModel
from octavo_runtime.source.reference import HubReference
from tests.kernels.cpu.available import cpu_kernels_run
from tests.runtime.hub import Repository, running_hub
from tests.runtime.models import save_tiny_model
from tests.runtime.server.running import until

MIB = 1 << 20
needs_kernels = pytest.mark.skipif(not cpu_kernels_run(), reason="the CPU kernels need AVX2 and, to be compiled, g++")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(MIB) * 8)
    return path


@pytest.fixture
def holding(file: Path) -> Iterator[Holding]:
    held = Holding(file, lock=False)
    yield held
    held.close()


def drop(path: Path) -> None:
    """From the page cache, so far as nobody maps it."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def test_what_is_held_is_not_dropped_with_the_page_cache(file: Path, holding: Holding) -> None:
    drop(file)
    assert holding.resident_bytes() == holding.size_bytes == 8 * MIB


def test_a_file_that_was_replaced_is_not_current(file: Path, holding: Holding) -> None:
    assert holding.is_current()
    file.with_name("new").write_bytes(b"new")
    os.replace(file.with_name("new"), file)
    assert not holding.is_current()
    file.unlink()
    assert not holding.is_current()


def test_memory_that_cannot_be_locked_is_an_error_with_the_remedy() -> None:
    program = """
import os, pathlib, resource
from octavo_runtime.preload.holding import Holding, HoldingError
resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
if os.geteuid() == 0:
    os.setuid(65534)
try:
    Holding(pathlib.Path("/etc/passwd"), lock=True)
except HoldingError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("--lock: the system does not lock"), ran.stderr
    assert ran.stdout.endswith("or leave --lock out\n")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        pytest.param(["--weights-cache", "{folder}"], 2, "no model is named", id="no model"),
        pytest.param(
            ["m", "--weights-cache", "none"], 2, "there is no folder to keep packed weights in", id="no folder"
        ),
        pytest.param(["--status", "--weights-cache", "{folder}"], 1, "nobody answers at", id="nobody"),
        pytest.param(
            ["{folder}", "--weights-cache", "{folder}", "--socket", "/" + 120 * "s"],
            2,
            "the system takes paths of 107 bytes",
            id="a long socket path",
        ),
    ],
)
def test_what_is_called_wrongly_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, text: str
) -> None:
    assert main(["preload", *(argument.format(folder=tmp_path) for argument in arguments)]) == code
    assert text in capsys.readouterr().err


def held(socket: Path) -> Status | None:
    """What the daemon says once it has all of its models."""
    status = ask(socket)
    return None if status is None or status.doing else status


def test_while_it_packs_it_says_so_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, cache = tmp_path / "endless.gguf", tmp_path / "cache"
    os.mkfifo(model)  # whoever opens it waits
    command = [sys.executable, "-m", "octavo_runtime", "preload", str(model), "--weights-cache", str(cache)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: (status := ask(cache / "preload.sock")) is not None and status.doing.startswith("packing"))
        assert main(["preload", "--status", "--weights-cache", str(cache)]) == 1
        assert f"octavo preload: not yet, packing {model} (0 %)\n" in capsys.readouterr().err
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@needs_kernels
def test_packing_tells_how_far_it_is_and_then_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"model": str(save_tiny_model(tmp_path / "model")), "weights_cache": str(tmp_path / "cache")}
    monkeypatch.setattr(sys, "argv", ["packing", json.dumps(config)])
    assert packing.main() == 0
    *percent, path = capsys.readouterr().out.splitlines()
    assert percent == sorted(percent, key=int)
    assert percent[-1] == "100"
    assert Path(path).suffix == ".packed"


@needs_kernels
def test_models_are_packed_held_and_told_until_a_signal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, cache = save_tiny_model(tmp_path / "model"), tmp_path / "cache"
    command = [sys.executable, "-m", "octavo_runtime", "preload", str(model), "--weights-cache", str(cache)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        status = until(lambda: held(cache / "preload.sock"))
        assert status is not None
        (packed,) = cache.glob("*.packed")
        assert status.pid == process.pid
        (state,) = status.models
        assert (state.model, state.path) == (str(model), str(packed))
        assert state.bytes == state.resident_bytes > packed.stat().st_size  # and the folder's small files
        assert main(["preload", "--status", "--weights-cache", str(cache)]) == 0
        assert f"{model}: 100 % of" in capsys.readouterr().out
        assert main(["preload", str(model), "--weights-cache", str(cache)]) == 2
        assert "answers there: end it or give another path" in capsys.readouterr().err
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert not (cache / "preload.sock").exists()


@needs_kernels
def test_a_hubs_model_is_downloaded_to_where_servers_look_for_it(
    tiny_chat_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("hf_secret\n")
    with running_hub({"org/tiny": Repository.of(tiny_chat_model, token="hf_secret")}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        flags = ["--weights-cache", str(tmp_path / "weights"), "--model-cache", str(tmp_path / "models")]
        command = [sys.executable, "-m", "octavo_runtime", "preload", "hf://org/tiny", "--once", *flags]
        subprocess.run([*command, "--hub-token-file", token], check=True)
        reference = HubReference("org/tiny", None, "main")
        assert CachedModel(tmp_path / "models", reference).find("1" * 40) is not None
        assert len(list((tmp_path / "weights").glob("*.packed"))) == 1
        refused = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert refused.returncode == 2
    assert "octavo preload: hf://org/tiny" in refused.stderr.splitlines()[-1]


@needs_kernels
def test_a_model_that_cannot_be_packed_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(tmp_path / "absent.gguf"), "--weights-cache", str(tmp_path / "cache"), "--once"]
    assert main(["preload", *arguments]) == 2
    assert "absent.gguf cannot be packed: model" in capsys.readouterr().err
