"""Numbered steps with their running time: one updating line on a terminal, plain lines elsewhere.

[3/9] building kube-apiserver (≈5 min the first time) … 74 s
"""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TextIO

PLAIN_INTERVAL_S = 30.0
# What took less needs no second plain line to say so.
QUICK_S = 1.0


@dataclass(frozen=True)
class Step:
    title: str
    run: Callable[[], None]


def run_steps(steps: Sequence[Step], out: TextIO | None = None) -> None:
    """Runs the steps in order; an exception of one ends the run and leaves its line standing."""
    for number, step in enumerate(steps, start=1):
        with Ticker(f"[{number}/{len(steps)}] {step.title}", out or sys.stdout):
            step.run()


class Ticker:
    """Shows that `text` is being done and for how long, from a thread; `detail` may change meanwhile."""

    def __init__(self, text: str, out: TextIO) -> None:
        self.detail = ""
        self._text, self._out = text, out
        self._live = out.isatty()
        self._start_s = time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> "Ticker":
        self._write(self._text, ends=False)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._end.set()
        self._thread.join()
        if self._live or error is not None or self._elapsed_s() >= QUICK_S:
            self._write(
                f"{self._text} … {self._elapsed_s():.0f} s" + (" failed" if error is not None else ""), ends=True
            )

    def _tick(self) -> None:
        while not self._end.wait(1.0 if self._live else PLAIN_INTERVAL_S):
            detail = f": {self.detail}" if self.detail else ""
            self._write(f"{self._text}{detail} … {self._elapsed_s():.0f} s", ends=False)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._start_s

    def _write(self, line: str, *, ends: bool) -> None:
        """On a terminal over the line before, which stays if it `ends` the step; elsewhere a line of its own."""
        self._out.write(f"\r\x1b[K{line}" + ("\n" if ends else "") if self._live else f"{line}\n")
        self._out.flush()
