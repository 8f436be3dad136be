"""The engine's pulse: what is written is read, whole, and when silence is too long."""

import dataclasses
import mmap
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from octavo_runtime.heartbeat import LOADING_STALL_S, PHASES, TICK_STALL_FACTOR, TICK_STALL_S, Heartbeat, Phase, Pulse

NOW_S = 5000.0
# Every write holds the same number three times, once in a text that fills most of the pulse.
WRITER = """
import sys
from pathlib import Path
from octavo_runtime.heartbeat import Heartbeat
heartbeat = Heartbeat.open(Path(sys.argv[1]))
heartbeat.reset()
number = 0
while True:
    number = (number + 1) % 100
    heartbeat.progress("loading", number, f"{number:02d}" * 128)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Heartbeat]:
    """The writing side."""
    heartbeat = Heartbeat.open(tmp_path)
    yield heartbeat
    heartbeat.close()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Heartbeat]:
    """The reading side."""
    heartbeat = Heartbeat.open(tmp_path)
    yield heartbeat
    heartbeat.close()


def test_a_file_that_was_never_written_is_loading_without_progress(api: Heartbeat) -> None:
    assert api.read() == Pulse()
    assert api.read().phase == "loading"


@pytest.mark.parametrize("phase", PHASES)
def test_progress_is_read_by_the_other_side(engine: Heartbeat, api: Heartbeat, phase: Phase) -> None:
    before_s = time.monotonic()
    engine.progress(phase, 73, "reading weights · 3 of 5")
    pulse = api.read()
    assert (pulse.phase, pulse.percent, pulse.reason, pulse.tick) == (phase, 73, "reading weights · 3 of 5", 1)
    assert before_s <= pulse.progress_at_s == pulse.tick_at_s <= time.monotonic()


def test_a_step_is_in_flight_between_its_begin_and_its_end(engine: Heartbeat, api: Heartbeat) -> None:
    engine.progress("ready", 100, "")
    engine.start_step(7, 512)
    during = api.read()
    assert (during.step, during.planned_tokens, during.phase, during.tick) == (7, 512, "ready", 2)
    assert during.step_started_at_s == during.tick_at_s > 0
    engine.end_step()
    after = api.read()
    assert (after.step, after.planned_tokens, after.step_started_at_s, after.tick) == (7, 0, 0.0, 3)
    assert after.seconds_per_token == pytest.approx((after.tick_at_s - during.step_started_at_s) / 512)


def test_seconds_per_token_follow_later_steps_by_a_quarter(engine: Heartbeat, api: Heartbeat) -> None:
    means, samples = [], []
    for tokens in (1, 1000):
        engine.start_step(1, tokens)
        started_s = api.read().step_started_at_s
        engine.end_step()
        pulse = api.read()
        means.append(pulse.seconds_per_token)
        samples.append((pulse.tick_at_s - started_s) / tokens)
    assert means == pytest.approx([samples[0], 0.75 * samples[0] + 0.25 * samples[1]])


def test_a_beat_moves_the_tick_and_keeps_the_rest(engine: Heartbeat, api: Heartbeat) -> None:
    engine.progress("ready", 100, "well")
    before = api.read()
    engine.beat()
    after = api.read()
    assert after == dataclasses.replace(before, tick=before.tick + 1, tick_at_s=after.tick_at_s)
    assert after.tick_at_s >= before.tick_at_s


def test_reset_forgets_the_engine_before(engine: Heartbeat, api: Heartbeat) -> None:
    engine.progress("ready", 100, "well")
    engine.start_step(7, 512)
    engine.end_step()
    engine.reset()
    pulse = api.read()
    assert pulse == Pulse(tick_at_s=pulse.tick_at_s, progress_at_s=pulse.progress_at_s)
    assert pulse.stalled_s(time.monotonic()) is None


@pytest.mark.parametrize(
    ("reason", "read"),
    [
        pytest.param("x" * 300, "x" * 256, id="cut at 256 bytes"),
        pytest.param("x" + "é" * 200, "x" + "é" * 127, id="no half a letter"),
        pytest.param("", "", id="empty"),
    ],
)
def test_a_long_reason_is_cut(engine: Heartbeat, api: Heartbeat, reason: str, read: str) -> None:
    engine.progress("stopped", 0, reason)
    assert api.read().reason == read


def test_a_write_that_never_ends_shows_the_pulse_before_until_a_new_engine_begins(
    engine: Heartbeat, api: Heartbeat, tmp_path: Path
) -> None:
    """An engine that is killed within a write leaves an odd counter; probes must neither wait for it nor read half a pulse."""
    engine.progress("ready", 100, "")
    before = api.read()
    with (tmp_path / "heartbeat").open("r+b") as file:
        (counter,) = struct.unpack("<Q", file.read(8))
        file.seek(0)
        file.write(struct.pack("<QQ", counter + 1, 10**6))
    assert api.read() == before
    engine.reset()
    assert api.read().phase == "loading"
    engine.beat()
    assert api.read().tick == 1


class Interrupted(mmap.mmap):
    """Mapped memory whose first copy is made half before and half after a write of the other side."""

    pending: Callable[[], None] | None = None

    def __getitem__(self, key: Any) -> Any:
        before = super().__getitem__(key)
        if self.pending is None:
            return before
        write, self.pending = self.pending, None
        write()
        after = super().__getitem__(key)
        half = len(after) // 2
        return before[:half] + after[half:]


def test_a_copy_that_a_write_interrupted_is_made_again(engine: Heartbeat, tmp_path: Path) -> None:
    engine.progress("ready", 1, "a" * 256)
    with (tmp_path / "heartbeat").open("r+b") as file:
        memory = Interrupted(file.fileno(), 0)
    memory.pending = lambda: engine.progress("ready", 2, "b" * 256)
    api = Heartbeat(memory)
    pulse = api.read()
    api.close()
    assert (pulse.percent, pulse.reason) == (2, "b" * 256)


def test_a_reader_never_sees_half_a_write(api: Heartbeat, tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
    try:
        deadline_s = time.monotonic() + 60
        while api.read().tick == 0:
            assert writer.poll() is None
            assert time.monotonic() < deadline_s, "the writer did not begin"
        ticks = set()
        for _ in range(30_000):
            pulse = api.read()
            assert pulse.reason == f"{pulse.percent:02d}" * 128
            assert pulse.tick % 100 == pulse.percent
            ticks.add(pulse.tick)
    finally:
        writer.kill()
        writer.wait()
    assert len(ticks) > 50  # reads and writes ran side by side


SERVING = Pulse(phase="ready", tick_at_s=NOW_S, progress_at_s=1.0)


@pytest.mark.parametrize(
    ("pulse", "limit_s"),
    [
        pytest.param(Pulse(phase="loading", progress_at_s=NOW_S), LOADING_STALL_S, id="loading"),
        pytest.param(Pulse(phase="warming", progress_at_s=NOW_S), LOADING_STALL_S, id="warming"),
        pytest.param(
            Pulse(phase="loading", tick_at_s=1.0, progress_at_s=NOW_S),
            LOADING_STALL_S,
            id="loading counts progress only",
        ),
        pytest.param(SERVING, TICK_STALL_S, id="ready"),
        pytest.param(dataclasses.replace(SERVING, phase="pressured"), TICK_STALL_S, id="pressured"),
        pytest.param(dataclasses.replace(SERVING, phase="draining"), TICK_STALL_S, id="draining"),
        pytest.param(
            dataclasses.replace(SERVING, planned_tokens=100, seconds_per_token=0.01), TICK_STALL_S, id="a short step"
        ),
        pytest.param(
            dataclasses.replace(SERVING, planned_tokens=512, seconds_per_token=0.01),
            TICK_STALL_FACTOR * 5.12,
            id="a long step",
        ),
    ],
)
def test_silence_is_a_stall_beyond_the_phases_limit(pulse: Pulse, limit_s: float) -> None:
    assert pulse.stalled_s(NOW_S + limit_s - 0.1) is None
    assert pulse.stalled_s(NOW_S + limit_s + 0.1) == pytest.approx(limit_s + 0.1)


def test_an_engine_that_stopped_does_not_stall() -> None:
    assert Pulse(phase="stopped", tick_at_s=1.0, progress_at_s=1.0).stalled_s(NOW_S) is None
