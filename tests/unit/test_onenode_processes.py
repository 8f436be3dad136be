"""The records by which the one-node cluster finds its processes again never lead to another's process."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.onenode import processes
from tests.cluster.onenode.errors import OneNodeError
from tests.cluster.onenode.processes import Processes, Record

SLEEPER = [sys.executable, "-c", "import time; print('asleep', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Processes]:
    found = Processes(tmp_path / "records", tmp_path / "logs")
    yield found
    processes.stop(found.all(), grace_s=0.1)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEPER, stdout=subprocess.DEVNULL) as process:
        yield process
        process.kill()


def record(process: subprocess.Popen[bytes]) -> Record:
    found = processes.record_of("stranger", process.pid, SLEEPER[0])
    assert found is not None
    return found


def wait_for_log(ours: Processes, name: str, text: str) -> None:
    deadline_s = time.monotonic() + 10.0
    while text not in ours.log(name).read_text():
        assert time.monotonic() < deadline_s, f"{name} never said {text}"
        time.sleep(0.01)


def test_a_started_process_is_found_again_by_another_reader(ours: Processes, tmp_path: Path) -> None:
    started = ours.start("sleeper", SLEEPER, os.environ)
    again = Processes(tmp_path / "records", tmp_path / "logs")
    assert again.find("sleeper") == started
    assert again.running("sleeper")


def test_ending_stops_and_forgets(ours: Processes) -> None:
    started = ours.start("sleeper", SLEEPER, os.environ)
    ours.end("sleeper")
    assert not processes.is_alive(started)
    assert ours.all() == []


def test_ending_what_never_ran_is_nothing(ours: Processes) -> None:
    ours.end("sleeper")
    assert ours.all() == []


def test_a_process_that_ignores_the_request_is_killed(ours: Processes) -> None:
    started = ours.start("stubborn", STUBBORN, os.environ)
    wait_for_log(ours, "stubborn", "deaf")
    processes.stop([started], grace_s=0.1)
    assert not processes.is_alive(started)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"start_ticks": 1}, id="the id was given to a process that started at another time"),
        pytest.param({"boot_id": "of another boot"}, id="the machine was booted since"),
    ],
)
def test_a_recycled_id_is_never_signalled(stranger: subprocess.Popen[bytes], changed: dict[str, object]) -> None:
    stale = dataclasses.replace(record(stranger), **changed)  # type: ignore[arg-type]  # the table's values are of both types
    assert not processes.is_alive(stale)
    processes.stop([stale], grace_s=0.1)
    assert stranger.poll() is None


def test_a_zombie_is_not_alive(stranger: subprocess.Popen[bytes]) -> None:
    seen = record(stranger)
    os.kill(stranger.pid, signal.SIGKILL)
    deadline_s = time.monotonic() + 10.0
    while processes.is_alive(seen):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    # Nobody has waited for it yet: the process table still holds it.
    assert Path(f"/proc/{stranger.pid}").exists()


def test_a_name_with_spaces_and_parentheses_does_not_confuse_the_start_time(tmp_path: Path) -> None:
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([str(odd), "600"]) as process:
        try:
            ticks = processes.start_ticks(process.pid)
            assert ticks is not None
            assert ticks >= (processes.start_ticks(os.getpid()) or 0)
        finally:
            process.kill()


def test_a_program_that_ends_at_once_is_not_running(ours: Processes) -> None:
    try:
        started = ours.start("short", [sys.executable, "-c", "raise SystemExit('no such flag')"], os.environ)
    except OneNodeError:
        return
    deadline_s = time.monotonic() + 10.0
    while processes.is_alive(started):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert not ours.running("short")
    assert "no such flag" in ours.log_end("short")
