"""Messages from rank 0 to the other ranks of its node through shared memory: written once, read by each.

A ring of bytes in a mapped file: messages one after another, each with its length before it. The writer's count of bytes and each
reader's stand in the file; the writer waits for the slowest reader where there is no room, so a message may be longer than the
ring. That there is something to read is told by a byte in a pipe to each reader: waiting costs nothing, and the pipe's end tells
that the writer is gone.
"""

import mmap
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_LINE = 64  # bytes; each count in its own, so that nobody writes into another's
RING_BYTES = 4 << 20
_PAUSE_S = 0.0002


class RingClosedError(Exception):
    """The writer is gone."""


class _Ring:
    """The mapped file: counts of the writer and the readers, then the bytes."""

    def __init__(self, path: Path, readers: int, size: int) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.begin, self.size = _LINE * (1 + readers), size
        try:
            os.ftruncate(descriptor, self.begin + size)
            self.memory = mmap.mmap(descriptor, self.begin + size)
        finally:
            os.close(descriptor)
        self.counts = memoryview(self.memory)[: self.begin].cast("Q")[:: _LINE // 8]

    def close(self) -> None:
        self.counts.release()
        self.memory.close()

    def parts(self, count: int, length: int) -> list[slice]:
        """Where `length` bytes from byte `count` of the stream lie."""
        first = count % self.size
        head = min(length, self.size - first)
        places = [(first, head), (0, length - head)]
        return [slice(self.begin + at, self.begin + at + part) for at, part in places if part]


class RingWriter:
    """`bells`: the writing ends of the readers' pipes. `check` is called while it waits for room, and may raise."""

    def __init__(self, path: Path, bells: Sequence[int], check: Callable[[], None], size: int = RING_BYTES) -> None:
        self._ring = _Ring(path, len(bells), size)
        self._bells = bells
        self._check = check

    def put(self, message: bytes) -> None:
        """Raises BrokenPipeError where a reader's process has ended."""
        if not self._bells:
            return
        data = memoryview(len(message).to_bytes(8, "little") + message)
        rung = False
        while data:
            written = self._ring.counts[0]
            room = self._ring.size - (written - min(self._ring.counts[1:].tolist()))
            part = data[:room]
            for place in self._ring.parts(written, len(part)):
                length = place.stop - place.start
                self._ring.memory[place] = part[:length]
                part = part[length:]
            self._ring.counts[0] = written + min(room, len(data))
            data = data[room:]
            if not rung:
                for bell in self._bells:
                    os.write(bell, b".")
                rung = True
            if data:
                self._check()
                time.sleep(_PAUSE_S)

    def close(self) -> None:
        self._ring.close()


class RingReader:
    """Reader `index` of `readers`; `bell` is the reading end of its pipe."""

    def __init__(self, path: Path, index: int, readers: int, bell: int, size: int = RING_BYTES) -> None:
        self._ring = _Ring(path, readers, size)
        self._place = 1 + index
        self._bell = bell

    def take(self) -> bytes:
        """The next message. Raises RingClosedError."""
        if not os.read(self._bell, 1):
            raise RingClosedError
        return self._read(int.from_bytes(self._read(8), "little"))

    def close(self) -> None:
        self._ring.close()

    def _read(self, length: int) -> bytes:
        counts, data = self._ring.counts, bytearray()
        while len(data) < length:
            taken = counts[self._place]
            there = min(counts[0] - taken, length - len(data))
            if not there:
                time.sleep(_PAUSE_S)  # the rest of a message that is longer than the ring
                continue
            for place in self._ring.parts(taken, there):
                data += self._ring.memory[place]
            counts[self._place] = taken + there
        return bytes(data)
