"""How much memory this process may use, and how many threads: what the machine and its cgroup leave (version 1 and 2)."""

import math
import os
from pathlib import Path

_UNLIMITED_BYTES = 1 << 60  # cgroup v1 writes "no limit" as a number near 2**63


def available_bytes(root: Path = Path("/")) -> int:
    """Bytes that can still be allocated: the smaller of the machine's available memory and the cgroup's limit less its use."""
    machine = _meminfo_available(root / "proc/meminfo")
    limits = [machine]
    for limit, usage in (
        ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        maximum, used = _number(root / limit), _number(root / usage)
        if maximum is not None and maximum < _UNLIMITED_BYTES:
            limits.append(maximum - (used or 0))
    return max(0, min(limits))


def usable_cpus(root: Path = Path("/")) -> int:
    """CPUs to compute on: min(affinity, ceil(cgroup quota))."""
    cpus = len(os.sched_getaffinity(0))
    quota = _quota(root)
    return max(1, min(cpus, math.ceil(quota))) if quota is not None else cpus


def _quota(root: Path) -> float | None:
    try:
        text, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
        return None if text == "max" else int(text) / int(period)
    except (OSError, ValueError):
        pass
    limit, period_us = (
        _number(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
        _number(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us"),
    )
    return limit / period_us if limit is not None and limit > 0 and period_us else None


def _meminfo_available(path: Path) -> int:
    for line in path.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{path} has no MemAvailable line")


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # absent, or the word "max"
        return None
