"""The last-step words: what a rank writes, others read through a mapping of their own."""

import os
from pathlib import Path

from octavo_runtime.engine.ranks.words import OwnWord, RankWord, Words


def test_others_read_what_a_rank_does(tmp_path: Path) -> None:
    here, there = Words(tmp_path / "words", 3), Words(tmp_path / "words", 3)
    own = OwnWord(here, 2)
    own.step(17)
    own.tick()
    own.tick()
    assert own.meet(41) == 1
    assert own.meet(42) == 2
    own.serve()
    own.tell("out of memory: " + "x" * 1000)
    read = there.read(2)
    assert (read.rank, read.pid, read.step, read.collectives) == (2, os.getpid(), 17, 2)
    assert (read.meeting, read.value, read.serving) == (2, 42, True)
    assert read.at_s > 0
    assert read.reason.startswith("out of memory: xxx")
    assert len(read.reason) < 500
    assert there.read(1) == RankWord(1)
    own.close()
    here.close()
    there.close()


def test_what_another_node_told_is_read_as_it_was(tmp_path: Path) -> None:
    words = Words(tmp_path / "words", 2)
    told = RankWord(1, 4711, step=3, collectives=99, meeting=1, value=2**40, serving=True, at_s=12.5, reason="gone")
    words.put(told)
    assert words.read(1) == told
    assert words.read(0) == RankWord(0)
    words.close()
