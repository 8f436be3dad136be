"""What figures were measured on."""

import os
import platform
from pathlib import Path

from octavo_runtime.engine.memory import usable_cpus


def machine() -> str:
    """What the figures were measured on, with how busy it was already."""
    names = [line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")]
    name = names[0] if names else platform.machine()
    return f"{name}, {usable_cpus()} CPUs, load average {os.getloadavg()[0]:.1f}"


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.is_file() else []
