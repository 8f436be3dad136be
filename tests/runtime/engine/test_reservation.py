"""Memory for KV pages that is asked for before anything else is loaded."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.reservation import DEFAULT_KV_BYTES, Reservation, reserve_early

MIB = 1 << 20
GIB = 1 << 30


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def machine(root: Path, available_bytes: int, *files: str) -> Path:
    for name, text in {
        "proc/meminfo": f"MemAvailable: {available_bytes >> 10} kB\n",
        **dict.fromkeys(files, ""),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_what_is_taken_is_zeros_that_are_there_and_the_rest_goes_back() -> None:
    before = resident_bytes()
    memory = Reservation(96 * MIB).take(64 * MIB - 1)
    assert len(memory) == 64 * MIB
    assert 64 * MIB <= resident_bytes() - before < 80 * MIB
    assert memory[:] == bytes(64 * MIB)


def test_what_is_given_up_goes_back() -> None:
    before = resident_bytes()
    reserved = Reservation(96 * MIB)
    reserved.wait()
    reserved.release()
    assert resident_bytes() - before < 16 * MIB


def test_memory_that_the_system_refuses_is_an_error_with_the_remedy() -> None:
    program = f"""
import resource
from octavo_runtime.engine.reservation import ConfigError, Reservation
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {100 * MIB},) * 2)
try:
    Reservation({200 * MIB}).take({200 * MIB})
except ConfigError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (
        ran.stdout
        == "--kv-cache-memory: the system refuses the memory for KV pages (Cannot allocate memory): lower it\n"
    )


@pytest.mark.parametrize(
    ("available", "files", "flags", "expected"),
    [
        pytest.param(16 * GIB, (), {}, DEFAULT_KV_BYTES, id="plenty"),
        pytest.param(16 * GIB, (), {"kv_cache_memory": 5 * MIB}, 5 * MIB, id="what was asked for"),
        pytest.param(16 * GIB, ("dev/nvidiactl",), {}, None, id="perhaps a GPU"),
        pytest.param(16 * GIB, ("dev/nvidiactl",), {"device": "cpu"}, DEFAULT_KV_BYTES, id="a GPU that is not wanted"),
        pytest.param(16 * GIB, (), {"device": "cuda"}, None, id="a GPU that is not there"),
        pytest.param(16 * GIB, (), {"tensor_parallel_size": 2}, None, id="several ranks"),
        pytest.param(5 * GIB, (), {}, None, id="the half may become less"),
        pytest.param(3 * GIB, (), {"kv_cache_memory": 2 * GIB}, None, id="weights may need it"),
    ],
)
def test_begins_early_only_with_what_loading_settles_anyhow(
    tmp_path: Path, available: int, files: tuple[str, ...], flags: dict[str, object], expected: int | None
) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(bytes(MIB))
    config = ServeConfig(str(model), **flags)  # type: ignore[arg-type]  # a table of flags
    reserved = reserve_early(config, machine(tmp_path, available, *files))
    assert (None if reserved is None else reserved.size_bytes) == expected
    if reserved is not None:
        reserved.release()
