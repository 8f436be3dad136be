"""How much memory this process may use, and how many threads: what the machine and its cgroup leave (version 1 and 2)."""

import math
import os
from pathlib import Path

_UNLIMITED_BYTES = 1 << 60  # cgroup v1 writes "no limit" as a number near 2**63


def available_bytes(root: Path = Path("/")) -> int:
    """Bytes that can still be allocated: the smaller of the machine's available memory and the cgroup's limit less its use.

    Use is counted as the kubelet counts it, without inactive file pages: the kernel gives up the cache of a model's file first.
    """
    meminfo = root / "proc/meminfo"
    machine_kib = _line(meminfo, "MemAvailable:")
    if machine_kib is None:
        raise RuntimeError(f"{meminfo} has no MemAvailable line")
    limits = [machine_kib * 1024]
    for folder, limit, usage, cache in (
        ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        maximum, used = _number(root / folder / limit), _number(root / folder / usage)
        if maximum is not None and maximum < _UNLIMITED_BYTES:
            cached = _line(root / folder / "memory.stat", cache)
            limits.append(maximum - max(0, (used or 0) - (cached or 0)))
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


def _line(path: Path, name: str) -> int | None:
    """The number after `name` at the begin of a line of a kernel's table, None where there is none."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), None)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # absent, or the word "max"
        return None
