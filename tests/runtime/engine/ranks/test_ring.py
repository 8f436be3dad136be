"""Plans through shared memory: every reader gets every message whole and in order, however long and however slow."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo_runtime.engine.ranks.ring import RingClosedError, RingReader, RingWriter

RING_BYTES = 1000  # no multiple of anything
MESSAGES = [bytes([index % 251]) * length for index, length in enumerate((0, 1, 7, 300, 999, 1000, 5000, 64, 2500))]


class Pipes:
    """A writer and its readers, each with its pipe."""

    def __init__(self, folder: Path, readers: int) -> None:
        self.pipes = [os.pipe() for _ in range(readers)]
        self.waits = 0
        bells = [bell for _, bell in self.pipes]
        self.writer = RingWriter(folder / "ring", bells, self.wait, RING_BYTES)
        self.readers = [
            RingReader(folder / "ring", index, readers, bell, RING_BYTES) for index, (bell, _) in enumerate(self.pipes)
        ]

    def wait(self) -> None:
        self.waits += 1

    def close(self) -> None:
        self.writer.close()
        for reader in self.readers:
            reader.close()
        for end in (end for pipe in self.pipes for end in pipe):
            os.close(end)


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[Pipes]:
    made = Pipes(tmp_path, 3)
    yield made
    made.close()


def test_every_reader_gets_every_message(pipes: Pipes) -> None:
    taken: list[list[bytes]] = [[] for _ in pipes.readers]

    def read(index: int) -> None:
        for _ in range(3 * len(MESSAGES)):
            taken[index].append(pipes.readers[index].take())

    threads = [threading.Thread(target=read, args=(index,)) for index in range(len(pipes.readers))]
    for thread in threads:
        thread.start()
    for message in 3 * MESSAGES:
        pipes.writer.put(message)
    for thread in threads:
        thread.join(30)
    assert taken == [3 * MESSAGES] * 3
    assert pipes.waits  # 5,000 bytes do not fit at once


def test_the_writer_stops_waiting_for_room_where_its_check_raises(tmp_path: Path) -> None:
    class GoneError(Exception):
        pass

    def check() -> None:
        raise GoneError

    reading, writing = os.pipe()
    writer = RingWriter(tmp_path / "ring", [writing], check, RING_BYTES)
    with pytest.raises(GoneError):
        writer.put(b"x" * 2000)  # nobody reads
    writer.close()
    os.close(reading)
    os.close(writing)


def test_a_writer_that_is_gone_ends_the_readers(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    reader = RingReader(tmp_path / "ring", 0, 1, reading, RING_BYTES)
    os.close(writing)
    with pytest.raises(RingClosedError):
        reader.take()
    reader.close()
    os.close(reading)


def test_a_reader_whose_process_has_ended_is_an_error_at_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = RingWriter(tmp_path / "ring", [writing], lambda: None, RING_BYTES)
    with pytest.raises(BrokenPipeError):
        writer.put(b"plan")
    writer.close()
    os.close(writing)
