"""What a process holds: memory, handles, sockets, threads, from /proc; and how its memory grew over a run."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Footprint:
    """One process at one moment."""

    resident_bytes: int
    handles: tuple[str, ...]  # what each open descriptor points to
    threads: int
    cpu_s: float  # spent since its start

    @property
    def sockets(self) -> int:
        return sum(handle.startswith("socket:") for handle in self.handles)


def footprint(pid: int) -> Footprint:
    """Raises OSError for a process that is gone."""
    handles = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            handles.append(os.readlink(entry))
        except FileNotFoundError:  # closed meanwhile
            continue
    return Footprint(resident_bytes(pid), tuple(handles), _status(pid, "Threads"), cpu_s(pid))


def resident_bytes(pid: int) -> int:
    return _status(pid, "VmRSS") << 10


def cpu_s(pid: int) -> float:
    """User and system time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(pid: int, field: str) -> int:
    """A number of the kernel's table; memory is in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def growth_mib(samples: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Least squares over the last two thirds of (requests done, resident bytes): MiB per 10,000 requests, and MiB over that span.

    The first third is warming: allocators and caches reach their size in it.
    """
    late = samples[len(samples) // 3 :]
    if len(late) < 2 or late[-1][0] == late[0][0]:
        return 0.0, 0.0
    mean_done = sum(done for done, _ in late) / len(late)
    mean_bytes = sum(size for _, size in late) / len(late)
    spread = sum((done - mean_done) ** 2 for done, _ in late)
    slope = sum((done - mean_done) * (size - mean_bytes) for done, size in late) / spread
    return slope * 10_000 / MIB, slope * (late[-1][0] - late[0][0]) / MIB
