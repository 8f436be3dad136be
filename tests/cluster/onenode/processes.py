"""Processes that outlive the command that started them, and the records by which they are found again.

A record holds the process id and its start time (clock ticks since boot, field 22 of /proc/<pid>/stat) with the boot's id, so
that an id that the kernel has given to another process since is never signalled.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.cluster.onenode.errors import OneNodeError

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Record:
    name: str
    pid: int
    start_ticks: int
    boot_id: str
    program: str


def start_ticks(pid: int) -> int | None:
    """When `pid` started, in clock ticks since boot; None if there is no such process or only its zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name, in parentheses, may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    state, ticks = fields[0], fields[19]
    return None if state in "ZX" else int(ticks)


def record_of(name: str, pid: int, program: str) -> Record | None:
    ticks = start_ticks(pid)
    return None if ticks is None else Record(name, pid, ticks, BOOT_ID.read_text().strip(), program)


def is_alive(record: Record) -> bool:
    """Whether the very process of the record still runs."""
    return record.boot_id == BOOT_ID.read_text().strip() and start_ticks(record.pid) == record.start_ticks


def stop(records: Iterable[Record], grace_s: float = 10.0) -> None:
    """Ends the processes with SIGTERM, after `grace_s` with SIGKILL, and waits for each; none of another's is touched."""
    alive = [record for record in records if is_alive(record)]
    for how, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        for record in alive:
            _send(record, how)
        deadline_s = time.monotonic() + wait_s
        while alive and time.monotonic() < deadline_s:
            time.sleep(0.05)
            alive = [record for record in alive if is_alive(record)]
    if alive:
        raise OneNodeError(f"not ended by SIGKILL: {', '.join(f'{r.name} (pid {r.pid})' for r in alive)}")


def _send(record: Record, how: signal.Signals) -> None:
    try:
        handle = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return
    try:
        # The handle pins the process: if it is ours now, the signal cannot reach another.
        if is_alive(record):
            signal.pidfd_send_signal(handle, how)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


class Processes:
    """The recorded processes, one file each in `folder`; their output goes to `<logs>/<name>.log`."""

    def __init__(self, folder: Path, logs: Path) -> None:
        self._folder, self._logs = folder, logs

    def start(self, name: str, command: Sequence[str | Path], environ: Mapping[str, str]) -> Record:
        """Starts `command` in a session of its own and records it; its log is begun anew."""
        for folder in (self._folder, self._logs):
            folder.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                start_new_session=True,
            )
        record = record_of(name, process.pid, str(command[0]))
        # The process is left to itself on purpose: without this, Python would complain that nobody waits for it.
        process.returncode = 0
        if record is None:
            raise OneNodeError(f"{name} ended at once: {self.log_end(name)}")
        temporary = self._folder / f".{name}"
        temporary.write_text(json.dumps(asdict(record)))
        temporary.rename(self._folder / f"{name}.json")
        return record

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def log_end(self, name: str, lines: int = 12) -> str:
        text = self.log(name).read_text(errors="replace") if self.log(name).exists() else ""
        return "\n".join([f"(end of {self.log(name)})", *text.splitlines()[-lines:]])

    def find(self, name: str) -> Record | None:
        return next((record for record in self.all() if record.name == name), None)

    def all(self) -> list[Record]:
        files = sorted(self._folder.glob("*.json")) if self._folder.exists() else []
        return [Record(**json.loads(file.read_text())) for file in files]

    def running(self, name: str) -> bool:
        record = self.find(name)
        return record is not None and is_alive(record)

    def end(self, *names: str) -> None:
        """Ends those of the names that run, together, and forgets them."""
        stop([record for record in self.all() if record.name in names])
        for name in names:
            (self._folder / f"{name}.json").unlink(missing_ok=True)
