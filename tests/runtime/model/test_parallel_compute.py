"""A decoder over several ranks, each a thread with a real gloo group, has the logits of one rank."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from octavo_runtime.model.collectives import Collectives, RankError
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.parallel_compute import ParallelCompute
from octavo_runtime.model.sharded_weights import ShardedCheckpoint
from octavo_runtime.model.sharding import Shard
from octavo_runtime.model.torch_compute import TorchCompute
from octavo_runtime.model.weights import WeightReader, open_checkpoint
from tests.runtime.model.batches import Chunk, run_steps
from tests.runtime.model.rank_threads import on_ranks
from tests.runtime.models import save_tiny_model

SEQUENCES = [[(37 * place + 11 * row) % 250 for place in range(length)] for row, length in enumerate((19, 7, 1))]
STEPS = [[Chunk(0, 0, 11), Chunk(1, 0, 7)], [Chunk(2, 0, 1), Chunk(0, 11, 8)]]


class TakingPart(Decoder):
    """Of another rank than 0: its own columns filled up to the whole vocabulary, which the steps want of each token."""

    def logits(self, hidden: Tensor) -> Tensor:
        own = super().logits(hidden)
        return functional.pad(own, (0, self.config.vocab_size - own.shape[1]))


def load(folder: Path, ranks: Collectives | None = None) -> Decoder:
    checkpoint, compute = open_checkpoint(folder), TorchCompute()
    if ranks is None:
        weights = WeightReader(checkpoint, torch.float32, lambda percent: None)
        return Decoder(checkpoint.config, weights, 64, torch.device("cpu"), compute)
    part = ShardedCheckpoint(checkpoint, Shard(ranks.rank, ranks.size))
    weights = WeightReader(part, torch.float32, lambda percent: None)
    decoder = TakingPart if ranks.rank else Decoder
    return decoder(part.config, weights, 64, torch.device("cpu"), ParallelCompute(compute, ranks))


@pytest.mark.parametrize(
    ("architecture", "kv_heads", "tied"),
    [
        pytest.param("llama", 4, False, id="4 KV heads"),
        pytest.param("llama", 2, True, id="2 KV heads, tied"),
        pytest.param("llama", 1, False, id="1 KV head"),
        pytest.param("qwen2", 2, False, id="biases"),
        pytest.param("qwen3", 4, False, id="head norms"),
    ],
)
def test_logits_are_those_of_one_rank(architecture: str, kv_heads: int, tied: bool, tmp_path: Path) -> None:
    """A vocabulary of 250 leaves the last rank fewer rows."""
    folder = save_tiny_model(
        tmp_path, architecture, num_key_value_heads=kv_heads, tie_word_embeddings=tied, vocab_size=250
    )
    expected = run_steps(load(folder), SEQUENCES, STEPS)
    for size in (2, 4):
        first = on_ranks(size, lambda ranks: logits_of_first(folder, ranks))[0]
        assert first is not None
        for ours, theirs in zip(first, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 * float(theirs.abs().max()))


def logits_of_first(folder: Path, ranks: Collectives) -> list[Tensor] | None:
    """Rank 0's; the others only take part."""
    decoder = load(folder, ranks)
    if ranks.rank == 0:
        return run_steps(decoder, SEQUENCES, STEPS)
    run_steps(decoder, SEQUENCES, STEPS)
    return None


def test_the_likeliest_token_is_the_whole_vocabularys_and_of_equal_ones_the_lowest(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, vocab_size=250)
    hidden = torch.randn(40, 64, generator=torch.Generator().manual_seed(1))
    hidden[7] = 0.0  # all logits are equal
    expected = load(folder).likeliest(hidden)
    assert len(set(expected.tolist())) > 10
    assert expected[7] == 0
    assert torch.equal(on_ranks(2, lambda ranks: load(folder, ranks).likeliest(hidden))[0], expected)


def test_parts_are_added_up_in_fp32() -> None:
    """256 + 1 + 1 is 258 in fp32; bf16 has no 257."""

    def summed(ranks: Collectives) -> Tensor:
        return ranks.summed(torch.tensor([256.0 if ranks.rank == 0 else 1.0], dtype=torch.bfloat16))

    assert [float(one) for one in on_ranks(3, summed)] == [258.0] * 3


def test_rank_0s_values_and_the_least_of_all_reach_everyone() -> None:
    def exchange(ranks: Collectives) -> tuple[list[int], int]:
        ids = torch.tensor([3, 4]) if ranks.rank == 0 else torch.zeros(2, dtype=torch.int64)
        return ranks.from_first(ids).tolist(), ranks.least(10 - ranks.rank)

    assert on_ranks(3, exchange) == [([3, 4], 8)] * 3


def test_a_rank_that_leaves_is_an_error_that_says_why_where_it_is_known() -> None:
    def leave(ranks: Collectives) -> str:
        ranks.why = lambda text: "rank 1 went home"
        if ranks.rank == 1:
            return "home"
        with pytest.raises(RankError) as error:
            ranks.summed(torch.ones(1))
        return str(error.value)

    assert on_ranks(2, leave) == ["rank 1 went home", "home"]
