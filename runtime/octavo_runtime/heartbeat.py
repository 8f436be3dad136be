"""The engine's pulse in shared memory: what `/live`, `/ready` and `/state` are answered from, without asking a busy engine.

One file in the run directory, mapped by the engine (which writes) and the API process (which reads). A sequence counter around
each write keeps readers from seeing half of it; the counter itself is stored and loaded as one word. Times are CLOCK_MONOTONIC, the
same for all processes of a machine.
"""

import dataclasses
import mmap
import os
import struct
import time
from pathlib import Path
from typing import Literal, get_args

Phase = Literal["loading", "warming", "ready", "pressured", "draining", "stopped", "hung"]
PHASES: tuple[Phase, ...] = get_args(Phase)

LOADING_STALL_S = 300.0  # without progress in loading or warming
TICK_STALL_S = 30.0  # the least a serving engine may be silent before it counts as hung
TICK_STALL_FACTOR = 20.0  # … or this many times the measured duration of the planned step

_COUNTER_BYTES = 8
_FIELDS = struct.Struct("<QdQdIdBBd256s")
_SIZE = _COUNTER_BYTES + _FIELDS.size
_READ_TRIES = 1000  # 1 ms; a write takes microseconds


@dataclasses.dataclass(frozen=True)
class Pulse:
    """One reading. Ages are meant against `time.monotonic()`."""

    tick: int = 0
    tick_at_s: float = 0.0
    step: int = 0
    step_started_at_s: float = 0.0  # 0 when no step is in flight
    planned_tokens: int = 0
    seconds_per_token: float = 0.0  # measured, of recent steps
    phase: Phase = "loading"
    percent: int = 0
    progress_at_s: float = 0.0  # last progress of loading or warming
    reason: str = ""

    def stalled_s(self, now_s: float) -> float | None:
        """Seconds since the last sign of life if that is too long for the phase, else None."""
        if self.phase in ("loading", "warming"):
            age_s, limit_s = now_s - self.progress_at_s, LOADING_STALL_S
        elif self.phase == "stopped":
            return None
        else:
            age_s = now_s - self.tick_at_s
            limit_s = max(TICK_STALL_S, TICK_STALL_FACTOR * self.seconds_per_token * self.planned_tokens)
        return age_s if age_s > limit_s else None


class Heartbeat:
    """The mapped file. `open` creates it; both sides may open first."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        # `struct` clears what it packs into first: a reader could see an even zero there twice, around half a write.
        self._counter = memoryview(memory)[:_COUNTER_BYTES].cast("Q")
        self._pulse = Pulse()  # what this side wrote last
        self._seen: Pulse | None = None  # what it read last

    @classmethod
    def open(cls, run_dir: Path) -> "Heartbeat":
        descriptor = os.open(run_dir / "heartbeat", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size < _SIZE:
                os.ftruncate(descriptor, _SIZE)
            return cls(mmap.mmap(descriptor, _SIZE))
        finally:
            os.close(descriptor)

    def close(self) -> None:
        self._counter.release()
        self._memory.close()

    def reset(self) -> None:
        """A new engine process begins: phase `loading`, progress now."""
        now_s = time.monotonic()
        self._write(Pulse(tick_at_s=now_s, progress_at_s=now_s))

    def beat(self) -> None:
        """The engine's loop went round once more, with no step in flight."""
        self._update(tick=self._pulse.tick + 1, tick_at_s=time.monotonic(), step_started_at_s=0.0, planned_tokens=0)

    def start_step(self, step: int, planned_tokens: int) -> None:
        now_s = time.monotonic()
        self._update(
            tick=self._pulse.tick + 1,
            tick_at_s=now_s,
            step=step,
            step_started_at_s=now_s,
            planned_tokens=planned_tokens,
        )

    def end_step(self) -> None:
        """Fold the step's duration into the measured seconds per token (a quarter of its weight each time)."""
        pulse, now_s = self._pulse, time.monotonic()
        sample = (now_s - pulse.step_started_at_s) / max(1, pulse.planned_tokens)
        mean = sample if pulse.seconds_per_token == 0.0 else 0.75 * pulse.seconds_per_token + 0.25 * sample
        self._update(
            tick=pulse.tick + 1, tick_at_s=now_s, step_started_at_s=0.0, planned_tokens=0, seconds_per_token=mean
        )

    def progress(self, phase: Phase, percent: int, reason: str) -> None:
        now_s = time.monotonic()
        self._update(
            phase=phase, percent=percent, reason=reason, progress_at_s=now_s, tick=self._pulse.tick + 1, tick_at_s=now_s
        )

    def read(self) -> Pulse:
        """The newest complete pulse; a file that was never written reads as phase `loading` with no progress yet.

        While a write does not end (its writer was killed or stopped within it), it is the last pulse that this side knows.
        """
        for _ in range(_READ_TRIES):
            before = self._counter[0]
            data = self._memory[_COUNTER_BYTES:_SIZE]
            if before % 2 == 0 and self._counter[0] == before:
                self._seen = _decoded(data)
                return self._seen
        return self._seen or self._pulse

    def _update(self, **changes: object) -> None:
        self._write(dataclasses.replace(self._pulse, **changes))  # type: ignore[arg-type]  # names are Pulse's own

    def _write(self, pulse: Pulse) -> None:
        self._pulse = pulse
        counter = self._counter[0] // 2 * 2
        self._counter[0] = counter + 1
        _FIELDS.pack_into(
            self._memory,
            _COUNTER_BYTES,
            pulse.tick,
            pulse.tick_at_s,
            pulse.step,
            pulse.step_started_at_s,
            pulse.planned_tokens,
            pulse.seconds_per_token,
            PHASES.index(pulse.phase),
            pulse.percent,
            pulse.progress_at_s,
            pulse.reason.encode()[:256],
        )
        self._counter[0] = counter + 2


def _decoded(data: bytes) -> Pulse:
    (tick, tick_at, step, started, planned, per_token, phase, percent, progress_at, reason) = _FIELDS.unpack(data)
    text = reason.rstrip(b"\0").decode(errors="ignore")
    return Pulse(tick, tick_at, step, started, planned, per_token, PHASES[phase], percent, progress_at, text)
