"""Processes of ranks: `python -m octavo_runtime.engine.ranks <config as JSON> <parent's process id> <rank> <folder> [pool]`."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from octavo_runtime.config import ServeConfig

# Exit codes of a rank.
CANNOT_START = 2  # for what another try would not change
LOST_OTHERS = 3  # another rank is the reason


def ranks_folder(config: ServeConfig) -> "tempfile.TemporaryDirectory[str]":
    """A new folder for what the ranks of this node share; what a killed process left in our run directory is removed."""
    if config.run_dir is not None:
        for left in Path(config.run_dir).glob("ranks-*"):
            shutil.rmtree(left, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix="ranks-", dir=config.run_dir)


def start_rank(config: ServeConfig, rank: int, folder: Path, pool: int | None = None) -> "subprocess.Popen[bytes]":
    """A child that ends with us; a byte in its standard input announces an order, see `ring.py`; `pool`: see `shared_pools.py`."""
    settings = json.dumps(dataclasses.asdict(config))
    command = [sys.executable, "-m", "octavo_runtime.engine.ranks", settings, str(os.getpid()), str(rank), str(folder)]
    if pool is None:
        return subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0)
    return subprocess.Popen([*command, str(pool)], stdin=subprocess.PIPE, bufsize=0, pass_fds=[pool])


def end_ranks(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """They keep nothing that they would have to put away."""
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def how_it_ended(return_code: int) -> str:
    """`exit code 1` or `signal SIGKILL`."""
    if return_code >= 0:
        return f"exit code {return_code}"
    try:
        return f"signal {signal.Signals(-return_code).name}"
    except ValueError:
        return f"signal {-return_code}"
