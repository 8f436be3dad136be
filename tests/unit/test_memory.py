"""Memory and CPUs from folders that look like /proc and /sys/fs/cgroup of either version, and of none."""

import os
from pathlib import Path

import pytest

from octavo_runtime.engine.memory import available_bytes, usable_cpus

MIB = 1 << 20
MEMINFO = {"proc/meminfo": f"MemTotal: {8 << 20} kB\nMemFree: 1024 kB\nMemAvailable: {4 << 20} kB\n"}
MACHINE_BYTES = 4 << 30
V1 = "sys/fs/cgroup/memory"
V1_UNLIMITED = "9223372036854771712\n"
CPUS = len(os.sched_getaffinity(0))


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def v2(limit: str, current: int, inactive_file: int | None = None) -> dict[str, str]:
    stat = {} if inactive_file is None else {"memory.stat": f"anon 5\nfile 9\ninactive_file {inactive_file}\n"}
    files = {"memory.max": f"{limit}\n", "memory.current": f"{current}\n", **stat}
    return {f"sys/fs/cgroup/{name}": text for name, text in files.items()}


@pytest.mark.parametrize(
    ("files", "expected_bytes"),
    [
        pytest.param({}, MACHINE_BYTES, id="no cgroup"),
        pytest.param(v2("max", 100 * MIB), MACHINE_BYTES, id="v2 without limit"),
        pytest.param(v2(str(512 * MIB), 100 * MIB), 412 * MIB, id="v2 limit less use"),
        pytest.param(
            v2(str(512 * MIB), 500 * MIB, inactive_file=300 * MIB),
            312 * MIB,
            id="v2, the cache of files does not count",
        ),
        pytest.param(v2(str(512 * MIB), 10, inactive_file=20), 512 * MIB, id="v2, more cache than use as both change"),
        pytest.param(v2(str(512 * MIB), 600 * MIB), 0, id="v2 over its limit"),
        pytest.param(v2(str(64 << 30), MIB), MACHINE_BYTES, id="v2 limit beyond the machine"),
        pytest.param({"sys/fs/cgroup/memory.max": f"{512 * MIB}"}, 512 * MIB, id="v2 without a count of use"),
        pytest.param(
            {f"{V1}/memory.limit_in_bytes": V1_UNLIMITED, f"{V1}/memory.usage_in_bytes": f"{MIB}"},
            MACHINE_BYTES,
            id="v1 without limit",
        ),
        pytest.param(
            {
                f"{V1}/memory.limit_in_bytes": f"{512 * MIB}",
                f"{V1}/memory.usage_in_bytes": f"{500 * MIB}",
                f"{V1}/memory.stat": f"inactive_file 7\ntotal_inactive_file {100 * MIB}\n",
            },
            112 * MIB,
            id="v1 limit less use without the cache of files",
        ),
    ],
)
def test_available_memory(tmp_path: Path, files: dict[str, str], expected_bytes: int) -> None:
    assert available_bytes(tree(tmp_path, MEMINFO | files)) == expected_bytes


@pytest.mark.parametrize("meminfo", [{}, {"proc/meminfo": "MemTotal: 1024 kB\n"}], ids=["no file", "no line"])
def test_a_machine_that_does_not_tell_its_memory_is_an_error(tmp_path: Path, meminfo: dict[str, str]) -> None:
    with pytest.raises(RuntimeError, match="proc/meminfo has no MemAvailable line"):
        available_bytes(tree(tmp_path, meminfo))


def v1_quota(quota_us: int) -> dict[str, str]:
    folder = "sys/fs/cgroup/cpu"
    return {f"{folder}/cpu.cfs_quota_us": f"{quota_us}\n", f"{folder}/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, CPUS, id="no cgroup"),
        pytest.param({"sys/fs/cgroup/cpu.max": "max 100000\n"}, CPUS, id="v2 without limit"),
        pytest.param({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1, id="v2 half a CPU"),
        pytest.param({"sys/fs/cgroup/cpu.max": "1000 100000\n"}, 1, id="v2 hardly any"),
        pytest.param({"sys/fs/cgroup/cpu.max": "100001 100000\n"}, min(CPUS, 2), id="v2 a little more than one"),
        pytest.param({"sys/fs/cgroup/cpu.max": "100000000 100000\n"}, CPUS, id="v2 more than there are"),
        pytest.param(v1_quota(-1), CPUS, id="v1 without limit"),
        pytest.param(v1_quota(50000), 1, id="v1 half a CPU"),
        pytest.param(v1_quota(150000), min(CPUS, 2), id="v1 one and a half"),
    ],
)
def test_usable_cpus(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    assert usable_cpus(tree(tmp_path, files)) == expected


def test_this_machine_has_memory_and_a_cpu() -> None:
    assert available_bytes() > 0
    assert usable_cpus() >= 1
