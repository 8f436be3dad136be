"""Starting and ending the engine process. Standard library only: it is started before the server's libraries are imported."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

from octavo_runtime.config import ServeConfig

END_WAIT_S = 10.0  # longer than it takes for what it keeps (`engine/core.py`)


def start_engine(config: ServeConfig) -> "subprocess.Popen[bytes]":
    """The engine as a child in a session of its own, so that a signal to our group leaves it to us. It dies with us by itself."""
    command = [sys.executable, "-m", "octavo_runtime.engine", json.dumps(dataclasses.asdict(config)), str(os.getpid())]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)


def end_engine(process: "subprocess.Popen[bytes]") -> None:
    """Ask it to end, and make it end after a while."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(END_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def how_it_ended(return_code: int) -> str:
    """`exit code 1` or `signal SIGKILL`, for messages."""
    if return_code >= 0:
        return f"exit code {return_code}"
    try:
        name = signal.Signals(-return_code).name
    except ValueError:
        name = str(-return_code)
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return f"signal {name}{hint}"
