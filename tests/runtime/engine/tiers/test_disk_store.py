"""The folder of the disk tier: whose it is, and what is refused."""

import os
from pathlib import Path

import pytest

from octavo_runtime.config import ConfigError
from octavo_runtime.engine.tiers.disk_store import DiskStore
from tests.runtime.engine.tiers.blocks import KIND, key


def test_one_engine_has_a_folder_at_a_time(tmp_path: Path) -> None:
    first = DiskStore(tmp_path, 1 << 20, KIND)
    with pytest.raises(ConfigError, match=r"--kv-tier-disk .*another runtime has this folder"):
        DiskStore(tmp_path, 1 << 20, KIND)
    first.close()
    DiskStore(tmp_path, 1 << 20, KIND).close()


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--kv-tier-disk .*Not a directory"):
        DiskStore(tmp_path / "file" / "below", 1 << 20, KIND)


def test_what_is_not_a_block_is_left_alone_but_what_was_not_finished(tmp_path: Path) -> None:
    own = tmp_path / KIND.folder
    own.mkdir()
    (tmp_path / "notes").mkdir()
    kept = [own / "README", tmp_path / "notes" / f"{key(1).hex()}.kv", tmp_path / f"{key(2).hex()}.kv"]
    for path in [*kept, own / f"{key(3).hex()}.tmp"]:
        path.write_bytes(bytes(KIND.file_bytes))
    store = DiskStore(tmp_path, KIND.file_bytes, KIND)
    assert (store.blocks, store.bytes) == (0, 0)
    assert store.make_room() == []
    assert all(path.exists() for path in kept)
    assert not (own / f"{key(3).hex()}.tmp").exists()
    store.close()


def test_room_is_made_by_the_longest_unused_and_reserved_until_the_block_is_there(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, 2 * KIND.file_bytes, KIND)
    for number in (1, 2):
        assert store.make_room() == []
        store.written(store.path(key(number)))
    assert store.find(key(1)) is not None
    assert store.make_room() == [store.path(key(2))]
    assert store.make_room() == [store.path(key(1))]
    assert store.make_room() is None  # all that the bound allows is being written
    store.failed()
    assert store.bytes == KIND.file_bytes
    store.close()


def test_what_was_left_beyond_the_bound_is_deleted_at_the_start_the_longest_unused_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / KIND.folder
    own.mkdir()
    for number in (1, 2, 3):
        path = own / f"{key(number).hex()}.kv"
        path.write_bytes(bytes(KIND.file_bytes))
        os.utime(path, (10 - number, 10 - number))
    with caplog.at_level("INFO", "octavo.engine"):
        store = DiskStore(tmp_path, 2 * KIND.file_bytes, KIND)
    assert (store.blocks, store.bytes) == (2, 2 * KIND.file_bytes)
    assert sorted(path.name for path in own.iterdir()) == [f"{key(number).hex()}.kv" for number in (1, 2)]
    assert "begins with 2 blocks" in caplog.text
    assert "1 deleted" in caplog.text
    store.close()
