"""Which rank is said to hang."""

import dataclasses

import pytest

from octavo_runtime.engine.ranks.verdict import HUNG_AFTER_BEFORE_SERVING_S, HUNG_AFTER_S, hung
from octavo_runtime.engine.ranks.words import RankWord

NOW_S = 1000.0


def word(rank: int, collectives: int, ago_s: float, serving: bool = True) -> RankWord:
    return RankWord(rank, 100 + rank, step=17, collectives=collectives, serving=serving, at_s=NOW_S - ago_s)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([word(0, 8, 50), word(1, 8, 51)], id="idle for long, all alike"),
        pytest.param([word(0, 9, HUNG_AFTER_S - 1), word(1, 8, 50)], id="waiting, not too long yet"),
        pytest.param([word(0, 9, 50, False), word(1, 8, 60, False)], id="one compiles while warming"),
        pytest.param([RankWord(0), RankWord(1)], id="nobody has begun"),
    ],
)
def test_nobody_hangs(words: list[RankWord]) -> None:
    assert hung(words, NOW_S) is None


def test_the_rank_that_does_not_join_is_named_with_its_last_step() -> None:
    words = [word(0, 9, 12), word(1, 9, 12), word(2, 8, 13)]
    assert hung(words, NOW_S) == "rank 2 (process 102) hangs: rank 0 has waited for it for 12 s; its last step was 17"


def test_rank_0_is_named_like_any_other() -> None:
    verdict = hung([word(0, 8, 13), word(1, 9, 12)], NOW_S)
    assert verdict is not None
    assert verdict.startswith("rank 0 (process 100) hangs: rank 1 has waited")


def test_warming_takes_longer_but_not_for_ever() -> None:
    words = [word(0, 1, HUNG_AFTER_BEFORE_SERVING_S + 1, False), dataclasses.replace(word(1, 0, 0, False), step=0)]
    verdict = hung(words, NOW_S)
    assert verdict is not None
    assert verdict.endswith("it had begun no step")
