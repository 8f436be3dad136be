"""Ranks, each a thread with a real gloo group, leave a step in the same place when one of them finds no memory."""

import dataclasses

import pytest
import torch

from octavo_runtime.model.collectives import Collectives, RankError
from octavo_runtime.model.memory_votes import PeerMemoryError
from tests.runtime.model.rank_threads import on_ranks

ROWS, WIDTH, SUMS = 3, 4, 3


@dataclasses.dataclass(frozen=True)
class Failures:
    """`at`: by rank, after how many sums of the step it fails; SUMS: before its last vote."""

    at: dict[int, int]

    def step(self, ranks: Collectives) -> list[float]:
        """The mean of each sum, and what was gathered on rank 0."""
        votes, gave = ranks.votes, []
        assert votes is not None
        votes.begin(ROWS * WIDTH)
        for done in range(SUMS):
            if self.at.get(ranks.rank) == done:
                votes.lack()
            gave.append(float(ranks.summed(torch.full((ROWS, WIDTH), float(ranks.rank + 1))).mean()))
        if self.at.get(ranks.rank) == SUMS:
            votes.lack()
        parts = ranks.gathered(torch.tensor([float(ranks.rank)]))
        return gave + [float(part) for part in parts or []]


def steps(size: int, failures: list[dict[int, int]]) -> list[list[str]]:
    """Of each rank: what each step gave, or its error."""

    def run(ranks: Collectives) -> list[str]:
        ranks.hold_votes(2 * ROWS * WIDTH, SUMS)
        told = []
        for at in failures:
            try:
                told.append(str(Failures(at).step(ranks)))
            except PeerMemoryError as error:
                told.append(str(error))
        return told

    return on_ranks(size, run)


@pytest.mark.parametrize("after", range(SUMS + 1))
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_all_ranks_leave_the_step_and_the_next_one_is_whole(rank: int, after: int) -> None:
    said = f"rank {rank} found no memory"
    first, *others = steps(3, [{}, {rank: after}, {rank: 0}, {}])
    assert first == ["[6.0, 6.0, 6.0, 0.0, 1.0, 2.0]", said, said, "[6.0, 6.0, 6.0, 0.0, 1.0, 2.0]"]
    assert others == [["[6.0, 6.0, 6.0]", said, said, "[6.0, 6.0, 6.0]"]] * 2


@pytest.mark.parametrize(
    ("at", "named"),
    [
        pytest.param({0: 1, 2: 1}, "ranks 0, 2 found no memory", id="in the same place"),
        pytest.param({0: 2, 2: 1}, "rank 2 found no memory", id="one would have, later"),
    ],
)
def test_several_that_fail_are_named(at: dict[int, int], named: str) -> None:
    assert steps(3, [at]) == [[named]] * 3


def test_sums_are_taken_in_fp32_and_given_in_the_parts_type() -> None:
    """256 + 1 + 1 is 258 in fp32; bf16 has no 257."""

    def summed(ranks: Collectives) -> tuple[float, torch.dtype]:
        ranks.hold_votes(1, 1).begin(1)
        got = ranks.summed(torch.tensor([256.0 if ranks.rank == 0 else 1.0], dtype=torch.bfloat16))
        return float(got), got.dtype

    assert on_ranks(3, summed) == [(258.0, torch.bfloat16)] * 3


def test_a_sum_keeps_its_numbers_when_others_follow() -> None:
    def twice(ranks: Collectives) -> list[float]:
        ranks.hold_votes(2, 2).begin(2)
        first = ranks.summed(torch.tensor([1.0, 2.0]))
        ranks.summed(torch.tensor([5.0, 5.0]))
        return first.tolist()

    assert on_ranks(2, twice) == [[2.0, 4.0]] * 2


def test_what_fails_after_the_last_vote_is_an_error_of_its_own() -> None:
    def late(ranks: Collectives) -> None:
        votes = ranks.hold_votes(1, 0)
        votes.begin(1)
        votes.settle()
        with pytest.raises(RuntimeError, match=f"rank {ranks.rank} found no memory when the ranks had agreed"):
            votes.lack()

    on_ranks(2, late)


def test_a_rank_that_leaves_is_no_vote() -> None:
    def leave(ranks: Collectives) -> None:
        ranks.hold_votes(1, 1).begin(1)
        if ranks.rank == 0:
            with pytest.raises(RankError):
                ranks.summed(torch.ones(1))

    on_ranks(2, leave)
