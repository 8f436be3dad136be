"""A block store on paper, for the pages of a `PaperRunner`: transfers take as many polls as they are told to, and blocks spoil.

Until a transfer is done its pages hold nothing that anybody could read by right.
"""

import collections
import dataclasses
from collections.abc import Sequence

from octavo_runtime.engine.block_store import Found
from octavo_runtime.messages import TierStats
from tests.runtime.engine.paper_runner import PaperRunner

_GARBAGE = (-1,)


@dataclasses.dataclass(eq=False)
class PaperJob:
    keys: list[bytes]
    pages: list[int]
    polls_left: int
    blocks: int = 0
    unwanted: bool = False

    @property
    def done(self) -> bool:
        return self.polls_left <= 0

    def give_up(self) -> None:
        self.unwanted = True


class PaperStore:
    """`polls`: that a transfer takes. `seconds`: that it is said to take. `most`: blocks, the first put is the first to go."""

    def __init__(self, polls: int = 0, seconds: float | None = None, most: int = 1000) -> None:
        self.lasting_blocks = 0
        self.on_their_way = 0
        self.polls = polls
        self.seconds = seconds
        self.spoiled: set[bytes] = set()
        self.jobs: list[PaperJob] = []
        self.runner: PaperRunner | None = None
        self.contents: collections.OrderedDict[bytes, list[tuple[int, ...] | None]] = collections.OrderedDict()
        self._most = most

    def has(self, key: bytes) -> bool:
        return key in self.contents

    def lasts(self, key: bytes) -> bool:
        return self.lasting_blocks > 0 and self.has(key)

    def lookup(self, keys: Sequence[bytes]) -> Found:
        found = next((place for place, key in enumerate(keys) if key not in self.contents), len(keys))
        return Found(found, self.seconds)

    def put(self, keys: Sequence[bytes], pages: Sequence[int]) -> int:
        assert self.runner is not None
        for key, page in zip(keys, pages, strict=True):
            self.contents[key] = self.runner.read(page)
        while len(self.contents) > self._most:
            self.contents.popitem(last=False)
        return sum(key in self.contents for key in keys)

    def get(self, keys: Sequence[bytes], pages: Sequence[int]) -> PaperJob:
        job = PaperJob(list(keys), list(pages), self.polls)
        self.jobs.append(job)
        self._transfer(job)
        return job

    def poll(self) -> None:
        for job in self.jobs:
            if not job.done:
                job.polls_left -= 1
                self._transfer(job)

    def stats(self) -> list[TierStats]:
        return [TierStats("memory", len(self.contents), 0)]

    def _transfer(self, job: PaperJob) -> None:
        assert self.runner is not None
        for key, page in zip(job.keys, job.pages, strict=True):
            whole = job.done and not job.unwanted and key in self.contents and key not in self.spoiled
            if whole and job.blocks == job.keys.index(key):
                self.runner.write(page, self.contents[key])
                job.blocks += 1
            else:
                self.runner.write(page, [_GARBAGE])
