"""Files of packed weights: whole or a reason, whoever writes and whatever becomes of the disk."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from octavo_runtime.packed_file import OtherWriterError, PackedFileError, open_packed, write_packed

KEY = {"model": "m", "scheme": "s"}
WEIGHTS = {"one": (3, 5, os.urandom(15)), "two three": (64, 400_000, os.urandom(64 * 400_000)), "none": (1, 1, b"x")}


def written(folder: Path) -> Path:
    path = folder / "deep" / "model.packed"
    size_bytes = write_packed(path, KEY, {name: (n, k, memoryview(data)) for name, (n, k, data) in WEIGHTS.items()})
    assert path.stat().st_size == size_bytes
    return path


def test_what_was_written_is_mapped_at_cache_lines(tmp_path: Path) -> None:
    path = written(tmp_path)
    found = open_packed(path, KEY)
    found.verify()
    assert set(found.parts) == set(WEIGHTS)
    for name, (n, k, data) in WEIGHTS.items():
        part = found.parts[name]
        assert (part.n, part.k, part.offset % 64) == (n, k, 0)
        assert found.memory[part.offset : part.offset + part.size_bytes] == data
    assert {file.suffix for file in path.parent.iterdir()} == {".packed", ".lock"}


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def lengthen(path: Path) -> None:
    os.truncate(path, path.stat().st_size + 1)


def flip(place: int) -> Callable[[Path], None]:
    """Change one byte, counted from the begin or, negative, from the end."""

    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        path.write_bytes(content)

    return change


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(os.remove, "there is no file yet", id="absent"),
        pytest.param(lambda path: os.truncate(path, 0), "it cannot be mapped", id="empty"),
        pytest.param(lambda path: os.truncate(path, 9), "it is no file of packed weights", id="nine bytes"),
        pytest.param(flip(0), "it is no file of packed weights", id="foreign"),
        pytest.param(flip(20), "its header is damaged", id="header"),
        pytest.param(lambda path: os.truncate(path, 100), "its header is damaged", id="within the header"),
        pytest.param(cut_in_half, "it is cut short", id="torn"),
        pytest.param(lengthen, "it is cut short", id="longer"),
        pytest.param(flip(12_000_000), "its checksum is wrong", id="a byte of a weight"),
        pytest.param(flip(-1), "its checksum is wrong", id="a byte of the checksums"),
    ],
)
def test_what_is_spoilt_is_a_reason_to_pack_anew(tmp_path: Path, spoil: Callable[[Path], None], reason: str) -> None:
    path = written(tmp_path)
    spoil(path)
    with pytest.raises(PackedFileError, match=reason):
        open_packed(path, KEY).verify()


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        pytest.param(KEY | {"scheme": "t"}, "another scheme$", id="changed"),
        pytest.param(KEY | {"rank": "1"}, "another rank$", id="more"),
        pytest.param({"model": "n"}, "another model and scheme$", id="less"),
    ],
)
def test_a_file_for_something_else_says_for_what(tmp_path: Path, key: dict[str, str], reason: str) -> None:
    with pytest.raises(PackedFileError, match=reason):
        open_packed(written(tmp_path), key)


def test_a_mapped_file_outlives_its_successor(tmp_path: Path) -> None:
    path = written(tmp_path)
    found = open_packed(path, KEY)
    write_packed(path, KEY | {"scheme": "t"}, {})
    found.verify()
    assert not open_packed(path, KEY | {"scheme": "t"}).parts


def test_one_writes_at_a_time(tmp_path: Path) -> None:
    path = written(tmp_path)
    with path.with_suffix(".lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(OtherWriterError):
            write_packed(path, KEY, {})
    open_packed(path, KEY).verify()


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """The limit on a file's size is met as a full disk is: within a write."""
    path = written(tmp_path)
    program = f"""
import resource, signal, sys
from octavo_runtime.packed_file import write_packed
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20,) * 2)
try:
    write_packed(__import__("pathlib").Path({str(path)!r}), {{}}, {{"w": (1, 1, memoryview(bytes(4 << 20)))}})
except OSError as error:
    print(error.strerror)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "File too large\n"
    open_packed(path, KEY).verify()
    assert {file.suffix for file in path.parent.iterdir()} == {".packed", ".lock"}
