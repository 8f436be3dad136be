"""The last-step words: what each rank does, in memory that rank 0 reads without asking.

One file, mapped by the ranks of a node, a record each. Numbers are written one by one, each in one store, by the rank alone: a
reader may find a new step beside an old count, never half a number. Times are CLOCK_MONOTONIC.
"""

import dataclasses
import mmap
import os
import time
from pathlib import Path

_NUMBERS = 9
_REASON_BYTES = 440
_RECORD = 8 * _NUMBERS + _REASON_BYTES
_PID, _STEP, _COLLECTIVES, _MEETING, _VALUE, _SERVING, _AT_NS, _TOLD_NS, _REASON = range(_NUMBERS)


@dataclasses.dataclass(frozen=True)
class RankWord:
    """`collectives`: how many it has begun, `at_s` when the last; `meeting`: how many it has come to, with `value`; `told_at_s`:
    when it last told rank 0 on another node that it lives."""

    rank: int
    pid: int = 0
    step: int = 0
    collectives: int = 0
    meeting: int = 0
    value: int = 0
    serving: bool = False
    at_s: float = 0.0
    told_at_s: float = 0.0
    reason: str = ""  # of its end, where it could tell


class Words:
    """The records of all ranks."""

    def __init__(self, path: Path, size: int) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, size * _RECORD)
            self._memory = mmap.mmap(descriptor, size * _RECORD)
        finally:
            os.close(descriptor)
        self._numbers = memoryview(self._memory).cast("Q")
        self.size = size

    def close(self) -> None:
        self._numbers.release()
        self._memory.close()

    def read(self, rank: int) -> RankWord:
        numbers = self.record(rank).tolist()
        begin = rank * _RECORD + 8 * _NUMBERS
        reason = self._memory[begin : begin + min(numbers[_REASON], _REASON_BYTES)].decode(errors="ignore")
        return RankWord(
            rank,
            pid=numbers[_PID],
            step=numbers[_STEP],
            collectives=numbers[_COLLECTIVES],
            meeting=numbers[_MEETING],
            value=numbers[_VALUE],
            serving=bool(numbers[_SERVING]),
            at_s=numbers[_AT_NS] / 1e9,
            told_at_s=numbers[_TOLD_NS] / 1e9,
            reason=reason,
        )

    def put(self, word: RankWord) -> None:
        """What a rank of another node told of itself."""
        numbers = self.record(word.rank)
        self.tell(word.rank, word.reason)
        for index, value in (
            (_PID, word.pid),
            (_STEP, word.step),
            (_COLLECTIVES, word.collectives),
            (_VALUE, word.value),
            (_MEETING, word.meeting),
            (_SERVING, int(word.serving)),
            (_AT_NS, int(word.at_s * 1e9)),
        ):
            numbers[index] = value

    def record(self, rank: int) -> memoryview:
        first = rank * _RECORD // 8
        return self._numbers[first : first + _NUMBERS]

    def tell(self, rank: int, reason: str) -> None:
        """Why the rank ends; what does not fit is cut."""
        text = reason.encode()[:_REASON_BYTES]
        begin = rank * _RECORD + 8 * _NUMBERS
        self._memory[begin : begin + len(text)] = text
        self.record(rank)[_REASON] = len(text)


class OwnWord:
    """A rank's own record."""

    def __init__(self, words: Words, rank: int) -> None:
        self.rank = rank
        self._words = words
        self._numbers = words.record(rank)
        self._numbers[_PID] = os.getpid()

    def close(self) -> None:
        self._numbers.release()

    def tick(self) -> None:
        """A collective begins."""
        self._numbers[_AT_NS] = time.monotonic_ns()
        self._numbers[_COLLECTIVES] += 1

    def step(self, step: int) -> None:
        self._numbers[_STEP] = step

    def meet(self, value: int) -> int:
        """Come to the next meeting with a number; → which meeting it is."""
        self._numbers[_VALUE] = value
        self._numbers[_MEETING] += 1
        return self._numbers[_MEETING]

    def lives(self) -> None:
        """It tells rank 0 on another node so."""
        self._numbers[_TOLD_NS] = time.monotonic_ns()

    def serve(self) -> None:
        """Loading and warming are over."""
        self._numbers[_SERVING] = 1

    def tell(self, reason: str) -> None:
        self._words.tell(self.rank, reason)

    def read(self) -> RankWord:
        return self._words.read(self.rank)
