"""Programs that run for minutes: what they are at is shown, all that they said is kept."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.images.errors import ImagesError
from tests.cluster.images.inputs import REPOSITORY
from tests.cluster.onenode.progress import Ticker

LOGS = REPOSITORY / ".artifacts" / "images"
_SHOWN_LINES = 30


def run(
    title: str, command: Sequence[str | Path], phases: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> None:
    """Runs `command` with its output in a log named after `title`, and shows `title` with the running time.

    `phases` maps a piece of an output line to what it means is being done. Raises `ImagesError` with the end of the log.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{title.replace(' ', '-')}.log"
    words = [str(word) for word in command]
    with Ticker(title, sys.stderr) as ticker, log.open("w") as kept:
        process = subprocess.Popen(
            words,
            cwd=REPOSITORY,
            env={**os.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                kept.write(line)
                ticker.detail = next((phase for piece, phase in phases.items() if piece in line), ticker.detail)
        if process.returncode != 0:
            kept.flush()
            end = "\n".join(log.read_text().splitlines()[-_SHOWN_LINES:])
            raise ImagesError(f"{title} failed: {words[0]} gave {process.returncode} (all it said: {log})\n{end}")


def output(*command: str | Path) -> str | None:
    """What a short command prints, without the newline; None if it fails or is not there."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
