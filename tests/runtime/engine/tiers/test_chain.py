"""Blocks through memory and disk and back: whole or not at all, within bounds, and without waiting for a disk."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octavo_runtime.engine.tiers.block_file import BlockKind
from octavo_runtime.engine.tiers.disk_tier import WRITES_WAITING_MOST
from tests.runtime.engine.tiers.blocks import KIND, PAGE_BYTES, Tiers, key


@pytest.fixture
def open_tiers(tmp_path: Path) -> Iterator[Callable[..., Tiers]]:
    """Opens tiers with a disk, one after the other; the last one is closed in the end."""
    opened: list[Tiers] = []

    def opens(**options: object) -> Tiers:
        for tiers in opened:
            tiers.chain.close()
        opened[:] = [Tiers(folder=tmp_path / "tier", **options)]  # type: ignore[arg-type]  # a table of options
        return opened[0]

    yield opens
    for tiers in opened:
        tiers.chain.close()


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("tier/*/*.kv"))


def overwrite(tiers: Tiers, *pages: int) -> None:
    for layer in tiers.pool.layers:
        for page in pages:
            layer[page] = 0xEE


def test_a_block_comes_back_as_it_was_put_though_its_page_was_written_since() -> None:
    tiers = Tiers()
    before = tiers.page(1)
    assert tiers.put(1, 2) == 2
    overwrite(tiers, 1, 2)
    assert tiers.bring([2, 1], [20, 21]) == 2
    assert tiers.page(21) == before
    assert tiers.page(20) != before
    tiers.chain.close()


def test_only_what_is_there_without_a_gap_is_found() -> None:
    tiers = Tiers()
    tiers.put(1, 2, 4)
    assert tiers.found(1, 2, 3, 4) == 2
    assert tiers.found(3, 4) == 0
    tiers.chain.close()


def test_full_memory_gives_up_what_was_unused_longest() -> None:
    tiers = Tiers(rows=3)
    tiers.put(1, 2, 3)
    assert tiers.found(1) == 1
    tiers.put(4)
    assert [tiers.found(number) for number in (1, 2, 3, 4)] == [1, 0, 1, 1]
    tiers.chain.close()


def test_a_block_that_changed_in_memory_is_dropped_and_so_is_nothing_else() -> None:
    tiers = Tiers()
    tiers.put(1, 2)
    block = tiers.chain._memory.store.find(key(2))
    assert block is not None
    tiers.chain._memory.content(block)[5] ^= 1
    before = tiers.page(21)
    assert tiers.bring([1, 2], [20, 21]) == 1
    assert tiers.page(21) == before
    assert (tiers.found(1), tiers.found(2)) == (1, 0)
    assert tiers.chain.stats()[0].corrupt_total == 1
    tiers.chain.close()


def test_what_memory_gave_up_comes_from_the_disk(open_tiers: Callable[..., Tiers]) -> None:
    tiers = open_tiers(rows=2)
    before = tiers.page(1)
    for number in (1, 2, 3, 4):
        tiers.put(number)
    assert tiers.found(1, 2, 3, 4) == 4
    assert tiers.bring([1, 2, 3, 4], [20, 21, 22, 23]) == 4
    assert tiers.page(20) == before
    memory, disk = tiers.chain.stats()
    assert (memory.hits_total, disk.hits_total) == (2, 2)
    assert (memory.blocks, disk.blocks) == (2, 4)


def test_a_restart_finds_what_the_disk_has(open_tiers: Callable[..., Tiers]) -> None:
    before = open_tiers().page(1)
    open_tiers().put(1, 2)
    again = open_tiers()
    assert again.found(1, 2) == 2
    assert again.bring([1], [20]) == 1
    assert again.page(20) == before


def test_the_disk_stays_within_its_bound_over_a_restart(open_tiers: Callable[..., Tiers], tmp_path: Path) -> None:
    tiers = open_tiers(blocks=3)
    for number in (1, 2, 3):
        tiers.put(number)
    for number in (2, 3, 1):
        os.utime(tiers.disk.path(key(number)), (number == 1, number == 1))  # type: ignore[union-attr]  # it is there
    tiers = open_tiers(blocks=3)
    tiers.put(4)
    tiers.settle()
    assert len(files(tmp_path)) == 3
    assert (tiers.found(1), tiers.found(4)) == (1, 1)  # the newest, and the new one


def test_blocks_of_another_configuration_are_not_found_and_are_the_first_to_go(
    open_tiers: Callable[..., Tiers], tmp_path: Path
) -> None:
    tiers = open_tiers(blocks=3)
    tiers.put(1)
    tiers.put(2)
    other = open_tiers(blocks=3, kind=BlockKind(bytes(32), KIND.block_bytes))
    assert other.found(1) == 0
    for number in (5, 6):
        other.put(number)
    assert len(files(tmp_path)) == 3
    assert other.found(5, 6) == 2


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def take_the_place_of_another(path: Path) -> None:
    path.write_bytes((path.parent / f"{key(2).hex()}.kv").read_bytes())


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(truncate, id="torn at the end"),
        pytest.param(empty, id="empty"),
        pytest.param(Path.unlink, id="gone"),
        pytest.param(lambda path: flip(path, -1), id="its content changed"),
        pytest.param(lambda path: flip(path, 12), id="another rank's"),
        pytest.param(lambda path: flip(path, 40), id="another root key's"),
        pytest.param(take_the_place_of_another, id="another block under its name"),
    ],
)
def test_a_file_that_is_not_the_block_is_dropped_and_never_served(
    open_tiers: Callable[..., Tiers], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    tiers = open_tiers()
    tiers.put(1, 2)
    damage(tmp_path / "tier" / KIND.folder / f"{key(1).hex()}.kv")
    tiers = open_tiers()
    before = tiers.page(20)
    if tiers.found(1):
        assert tiers.bring([1, 2], [20, 21]) == 0
        assert tiers.chain.stats()[1].corrupt_total == 1
    assert tiers.page(20) == before
    assert (tiers.found(1), tiers.found(2)) == (0, 1)
    assert len(files(tmp_path)) == 1


def test_a_full_disk_loses_blocks_and_nothing_else(
    open_tiers: Callable[..., Tiers], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tiers = open_tiers()
    unfinished = tmp_path / "tier" / KIND.folder / f"{key(1).hex()}.tmp"
    unfinished.symlink_to("/dev/full")
    assert tiers.put(1, 2) == 2  # in memory
    assert tiers.bring([1, 2], [20, 21]) == 2
    assert tiers.put(3) == 1  # while writing rests
    disk = tiers.chain.stats()[1]
    assert (disk.dropped_total, disk.blocks, disk.bytes) == (3 - len(files(tmp_path)), *held(tmp_path))
    assert disk.dropped_total >= 2
    assert not list(tmp_path.glob("tier/*/*.tmp"))
    assert "No space left on device" in caplog.text


def test_what_a_full_disk_did_not_take_is_offered_again_when_it_is_put_again(
    open_tiers: Callable[..., Tiers], tmp_path: Path
) -> None:
    tiers = open_tiers()
    unfinished = tmp_path / "tier" / KIND.folder / f"{key(1).hex()}.tmp"
    unfinished.symlink_to("/dev/full")
    tiers.put(1)
    assert (tiers.chain.has(key(1)), tiers.chain.lasts(key(1))) == (True, False)
    tiers.chain._disk._paused_until_s = 0.0  # type: ignore[union-attr]  # the pause is over
    tiers.put(1)
    assert tiers.chain.lasts(key(1))


def held(folder: Path) -> tuple[int, int]:
    sizes = [path.stat().st_size for path in files(folder)]
    return len(sizes), sum(sizes)


def test_a_disk_that_hangs_holds_up_neither_memory_nor_who_puts(
    open_tiers: Callable[..., Tiers], tmp_path: Path
) -> None:
    most = WRITES_WAITING_MOST
    tiers = open_tiers(rows=most + 6)
    stuck = tmp_path / "tier" / KIND.folder / f"{key(0).hex()}.tmp"
    os.mkfifo(stuck)  # whoever opens it to write waits for a reader
    numbers = range(most + 4)
    assert tiers.chain.put([key(number) for number in numbers], [1 + number % 8 for number in numbers]) == most + 4
    tiers.until(lambda: tiers.chain.stats()[1].dropped_total == 4)
    assert tiers.bring([most, most + 1], [20, 21]) == 2
    assert tiers.chain.stats()[1].blocks == 0
    reader = os.open(stuck, os.O_RDONLY | os.O_NONBLOCK)
    tiers.until(lambda: tiers.chain.stats()[1].blocks == most - 1 + (tiers.chain.stats()[1].blocks == most))
    os.close(reader)


def test_a_slow_read_is_foreseen_by_the_next_one(open_tiers: Callable[..., Tiers], tmp_path: Path) -> None:
    tiers = open_tiers(rows=2)
    for number in (1, 2, 3, 4):
        tiers.put(number)
    assert tiers.chain.lookup([key(1)]).seconds is None  # nothing was read yet
    tiers.bring([2], [22])
    path = tmp_path / "tier" / KIND.folder / f"{key(1).hex()}.kv"
    path.unlink()
    os.mkfifo(path)
    job = tiers.get([1], [20])
    tiers.until(lambda: (tiers.chain.lookup([key(2)]).seconds or 0.0) > 0.05)
    assert not job.done
    assert tiers.chain.lookup([key(4)]).seconds is None  # memory has it, and has brought nothing yet
    os.close(os.open(path, os.O_WRONLY))
    tiers.until(lambda: job.done)
    assert job.blocks == 0


def test_a_job_that_nobody_wants_any_more_stops_between_blocks(
    open_tiers: Callable[..., Tiers], tmp_path: Path
) -> None:
    tiers = open_tiers(rows=1)
    for number in (1, 2, 3):
        tiers.put(number)
    path = tmp_path / "tier" / KIND.folder / f"{key(1).hex()}.kv"
    content = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    fifo = os.open(path, os.O_RDWR)  # so that who opens it to read waits for content only
    before = tiers.page(21)
    job = tiers.get([1, 2], [20, 21])
    job.give_up()
    os.write(fifo, content)
    tiers.until(lambda: job.done)
    os.close(fifo)
    assert job.blocks <= 1
    assert tiers.page(21) == before


def test_rows_that_transfers_use_are_not_given_to_others() -> None:
    tiers = Tiers(rows=2)
    keys, pages = [key(number) for number in (1, 2, 3)], (1, 2, 3)
    assert tiers.chain.put(keys, pages) == 2  # before a worker's checksums were taken note of
    assert tiers.chain.stats()[0].dropped_total == 1
    tiers.settle()
    assert tiers.put(3) == 1
    tiers.chain.close()


def test_block_bytes_are_those_of_all_layers() -> None:
    assert KIND.block_bytes == 3 * PAGE_BYTES
