"""How much of the CPUs others took while something was measured, which tells a quiet run from one of no use. Linux only."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

_IDLE_FIELDS = (3, 4)  # idle and waiting for a disk
_OWN_FIELDS = slice(11, 13)  # of a process's numbers behind its name: in its own code, in the kernel's


class Occupancy:
    """From its making on. `processes`: those that are measured, with all their children, beside this one."""

    def __init__(self, processes: Sequence[int]) -> None:
        self._processes = [os.getpid(), *processes]
        self._before = self._ticks()

    def others(self) -> float:
        """The share of the CPUs, 0 to 1, that neither was idle nor ours. Ours are those that are still there."""
        (busy, ours, every), (busy_before, ours_before, every_before) = self._ticks(), self._before
        return max(0.0, busy - busy_before - (ours - ours_before)) / max(1, every - every_before)

    def _ticks(self) -> tuple[int, int, int]:
        """Busy, busy with us, all that there was."""
        fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        idle = sum(fields[index] for index in _IDLE_FIELDS)
        ours = sum(map(_process_ticks, {one for root in self._processes for one in _family(root)}))
        return sum(fields) - idle, ours, sum(fields)


def _family(process: int) -> Iterator[int]:
    yield process
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        for child in path.read_text().split():
            yield from _family(int(child))


def _process_ticks(process: int) -> int:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return sum(map(int, fields[_OWN_FIELDS]))
