"""Interleaved rounds: every engine once in each, each time in a process of its own that prints its figures as one line.

A machine may drift by a factor of two between minutes, so figures compare only within a round; every other round runs in the
opposite order, so that a steady drift favours nobody.
"""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import taken
from bench.serving_result import LineError, Result, parse

OTHERS_LOOK_S = 0.5  # over which the other processes' share is looked at, before an engine starts
_IDLE_FIELDS = (3, 4)  # of the first line of /proc/stat, behind its name: idle and iowait


@dataclasses.dataclass(frozen=True)
class Engine:
    """`command`, run in `folder`, prints one line in the form of `serving_result`. It takes part in the first `rounds` rounds.

    `taken`: the share of one core that another process takes meanwhile.
    """

    name: str
    command: tuple[str, ...]
    rounds: int | None = None  # None: all
    folder: Path | None = None  # None: where we are
    taken: float = 0.0

    def runs_in(self, number: int) -> bool:
        return self.rounds is None or number < self.rounds


@dataclasses.dataclass(frozen=True)
class Run:
    """One engine in one round: its result, or why there is none."""

    round: int
    engine: str
    result: Result | None
    failure: str = ""
    load: float = 0.0  # the load average before it
    others: float = 0.0  # the share of the CPUs that other processes took just before it, 0 to 1


def play(engines: Sequence[Engine], rounds: int, timeout_s: float, tell: Callable[[Run], None]) -> list[Run]:
    """All rounds; an engine that failed is not tried again."""
    runs: list[Run] = []
    failed: set[str] = set()
    for number in range(rounds):
        present = [engine for engine in engines if engine.runs_in(number) and engine.name not in failed]
        for engine in present if number % 2 == 0 else reversed(present):
            runs.append(_run(number, engine, timeout_s))
            tell(runs[-1])
            if runs[-1].result is None:
                failed.add(engine.name)
    return runs


def _run(number: int, engine: Engine, timeout_s: float) -> Run:
    load, others = os.getloadavg()[0], busy_share(OTHERS_LOOK_S)
    try:
        with _neighbour(engine.taken):
            code, output, errors = _ended(engine, timeout_s)
        result = parse(output) if code == 0 else None
        failure = "" if result else f"exit code {code}: {_last_line(errors)}"
    except subprocess.TimeoutExpired:
        result, failure = None, f"no end after {timeout_s:.0f} s: give it more with --timeout"
    except (LineError, OSError) as error:
        result, failure = None, str(error)
    return Run(number, engine.name, result, failure, load, others)


def _ended(engine: Engine, timeout_s: float) -> tuple[int, str, str]:
    """Exit code, output and errors. Whatever the command has started ends with it: a stray worker would slow down the next run.

    Into files, for a stray worker that holds a pipe open would also keep us waiting.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            engine.command, cwd=engine.folder, stdout=output, stderr=errors, start_new_session=True
        )
        try:
            process.wait(timeout_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0), errors.seek(0)
        return process.returncode, output.read(), errors.read()


@contextlib.contextmanager
def _neighbour(share: float) -> Iterator[None]:
    """A process that takes so much of a core; 0: none."""
    if not share:
        yield
        return
    with subprocess.Popen([sys.executable, taken.__file__, str(share)]) as process:
        try:
            yield
        finally:
            process.kill()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def busy_share(over_s: float) -> float:
    """The share of all CPUs' time that was not idle. Linux only."""
    busy_before, all_before = _cpu_ticks()
    time.sleep(over_s)
    busy_after, all_after = _cpu_ticks()
    return (busy_after - busy_before) / max(1, all_after - all_before)


def _cpu_ticks() -> tuple[int, int]:
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - sum(fields[index] for index in _IDLE_FIELDS), sum(fields)
