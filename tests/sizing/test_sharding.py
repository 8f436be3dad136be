"""Which degrees can be, and how much of a model a rank has then."""

import dataclasses

import pytest

from octavo_sizing.errors import DegreeError
from octavo_sizing.model import Model
from octavo_sizing.sharding import check_degree, local_kv_heads, possible_degrees, vocabulary_rows
from tests.sizing.models import LLAMA_8B, LLAMA_70B, QWEN2_5_0_5B, SMOLLM2_135M

SMALL = dataclasses.replace(
    SMOLLM2_135M, vocab_size=250, hidden_size=64, intermediate_size=128, heads=8, kv_heads=2, head_dim=16
)


@pytest.mark.parametrize(
    ("model", "degrees"),
    [
        pytest.param(SMOLLM2_135M, [1, 3], id="smollm2"),  # 9 would cut its MLP of 1536 unevenly
        pytest.param(LLAMA_8B, [1, 2, 4, 8, 16, 32], id="Llama-3.1-8B"),
        pytest.param(LLAMA_70B, [1, 2, 4, 8, 16, 32, 64], id="Llama-3.1-70B"),
        pytest.param(QWEN2_5_0_5B, [1, 2], id="Qwen2.5-0.5B: 14 heads"),
        pytest.param(SMALL, [1, 2, 4, 8], id="KV heads split, then replicated"),
        pytest.param(dataclasses.replace(SMALL, kv_heads=1), [1, 2, 4, 8], id="one KV head"),
        pytest.param(dataclasses.replace(SMALL, heads=12, kv_heads=6), [1, 2], id="neither split nor replicated by 4"),
        pytest.param(dataclasses.replace(SMALL, intermediate_size=100), [1, 2, 4], id="MLP"),
        pytest.param(dataclasses.replace(SMALL, vocab_size=10), [1, 2, 4], id="a rank without tokens"),
    ],
)
def test_degrees_that_share_everything(model: Model, degrees: list[int]) -> None:
    assert possible_degrees(model) == degrees


def test_a_degree_that_cannot_be_is_refused_with_those_that_can() -> None:
    check_degree(SMOLLM2_135M, 3, "--tensor-parallel-size")
    with pytest.raises(
        DegreeError, match=r"--tensor-parallel-size 2: .*9 attention heads, 3 KV heads.*give one of 1, 3$"
    ) as refused:
        check_degree(SMOLLM2_135M, 2, "--tensor-parallel-size")
    assert refused.value.possible == (1, 3)


@pytest.mark.parametrize(
    ("ranks", "kv_heads", "rows"),
    [
        pytest.param(1, 2, 250, id="one"),
        pytest.param(2, 1, 125, id="a KV head each"),
        pytest.param(4, 1, 63, id="a KV head on two, rows rounded up"),
    ],
)
def test_what_a_rank_has(ranks: int, kv_heads: int, rows: int) -> None:
    assert (local_kv_heads(SMALL, ranks), vocabulary_rows(SMALL.vocab_size, ranks)) == (kv_heads, rows)
