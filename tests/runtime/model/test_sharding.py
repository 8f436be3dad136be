"""Which part of a tensor is whose, and that only it is read: from safetensors and GGUF."""

import dataclasses
from pathlib import Path

import pytest
import torch

from octavo_runtime.model.config import ModelConfig, ModelError
from octavo_runtime.model.gguf_weights import GgufCheckpoint
from octavo_runtime.model.sharded_weights import ShardedCheckpoint
from octavo_runtime.model.sharding import Cut, Shard, cut, local_config, vocabulary
from octavo_runtime.model.weights import Checkpoint, open_checkpoint
from octavo_sizing.sharding import possible_degrees
from tests.runtime.model.gguf_model import write_gguf
from tests.runtime.models import save_tiny_model

SMOLLM2 = ModelConfig(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    layers=30,
    heads=9,
    kv_heads=3,
    head_dim=64,
    norm_eps=1e-5,
    rope_theta=10000.0,
    max_position=8192,
    tied_embeddings=True,
)
LLAMA = dataclasses.replace(
    SMOLLM2, vocab_size=250, hidden_size=64, intermediate_size=128, heads=8, kv_heads=2, head_dim=16
)
LAYER = "model.layers.3."


@pytest.mark.parametrize(
    ("size", "heads", "kv_heads"),
    [pytest.param(2, 4, 1, id="KV heads split"), pytest.param(4, 2, 1, id="KV heads on two ranks each")],
)
def test_a_rank_has_its_share_of_heads_and_the_whole_vocabulary(size: int, heads: int, kv_heads: int) -> None:
    local = local_config(LLAMA, Shard(1, size))
    assert (local.heads, local.kv_heads, local.intermediate_size) == (heads, kv_heads, 128 // size)
    assert local == dataclasses.replace(LLAMA, heads=heads, kv_heads=kv_heads, intermediate_size=128 // size)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param(f"{LAYER}self_attn.q_proj.weight", Cut(0, 64, 96, 128), id="q"),
        pytest.param(f"{LAYER}self_attn.q_proj.bias", Cut(0, 64, 96, 128), id="q's bias"),
        pytest.param(f"{LAYER}self_attn.k_proj.weight", Cut(0, 16, 32, 32), id="k: the second head's, as rank 3"),
        pytest.param(f"{LAYER}self_attn.v_proj.bias", Cut(0, 16, 32, 32), id="v's bias"),
        pytest.param(f"{LAYER}self_attn.o_proj.weight", Cut(1, 64, 96, 128), id="out"),
        pytest.param(f"{LAYER}mlp.gate_proj.weight", Cut(0, 64, 96, 128), id="gate"),
        pytest.param(f"{LAYER}mlp.up_proj.weight", Cut(0, 64, 96, 128), id="up"),
        pytest.param(f"{LAYER}mlp.down_proj.weight", Cut(1, 64, 96, 128), id="down"),
        pytest.param("model.embed_tokens.weight", Cut(0, 126, 189, 250), id="embedding"),
        pytest.param("lm_head.weight", Cut(0, 126, 189, 250), id="head"),
        pytest.param(f"{LAYER}input_layernorm.weight", None, id="norm"),
        pytest.param(f"{LAYER}self_attn.q_norm.weight", None, id="head norm"),
        pytest.param("model.norm.weight", None, id="last norm"),
    ],
)
def test_the_part_of_rank_2_of_4(name: str, part: Cut | None) -> None:
    assert cut(LLAMA, Shard(2, 4), name) == part


@pytest.mark.parametrize("size", possible_degrees(LLAMA))
def test_every_token_has_one_rank(size: int) -> None:
    parts = [vocabulary(250, Shard(rank, size)) for rank in range(size)]
    assert [token for part in parts for token in part] == list(range(250))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("qwen"), "qwen2", vocab_size=250, tie_word_embeddings=False)


@pytest.fixture(scope="module", params=["safetensors", "Q8_0", "F16"])
def checkpoint(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    if request.param == "safetensors":
        return open_checkpoint(folder)
    return GgufCheckpoint(write_gguf(tmp_path_factory.mktemp("gguf") / "model.gguf", folder, request.param))


@pytest.mark.parametrize("size", [2, 4])
def test_ranks_read_what_together_is_the_whole(checkpoint: Checkpoint, size: int) -> None:
    """At degree 4 a rank's 32 columns of the MLP are a block of Q8_0, at 8 of attention's half a block."""
    ranks = [ShardedCheckpoint(checkpoint, Shard(rank, size)) for rank in range(size)]
    for name in checkpoint.names():
        whole = checkpoint.read(name, torch.float32)
        parts = [rank.read(name, torch.float32) for rank in ranks]
        part = cut(checkpoint.config, Shard(0, size), name)
        if part is None:
            assert all(torch.equal(one, whole) for one in parts), name
        elif ".k_proj." in name or ".v_proj." in name:
            distinct = parts[:: max(1, size // checkpoint.config.kv_heads)]
            assert torch.equal(torch.cat(distinct), whole), name
            assert len(parts[0]) == max(16, len(whole) // size)
        else:
            assert torch.equal(torch.cat(parts, part.axis), whole), name


def test_columns_within_blocks_are_read_too(folder: Path, tmp_path: Path) -> None:
    gguf = GgufCheckpoint(write_gguf(tmp_path / "model.gguf", folder, "Q8_0"))
    name = "model.layers.0.self_attn.o_proj.weight"
    whole = gguf.read(name, torch.float32)
    assert torch.equal(gguf.read(name, torch.float32, Cut(1, 48, 80, 128)), whole[:, 48:80])


def test_rows_of_rotary_pairs_are_put_in_order_head_by_head(tmp_path: Path) -> None:
    llama = save_tiny_model(tmp_path / "llama")
    gguf = GgufCheckpoint(write_gguf(tmp_path / "model.gguf", llama, "F32"))
    name = "model.layers.1.self_attn.q_proj.weight"
    assert torch.equal(
        ShardedCheckpoint(gguf, Shard(1, 4)).read(name, torch.float32), gguf.read(name, torch.float32)[32:64]
    )


def test_a_tensor_of_another_size_is_refused_by_its_whole_shape(checkpoint: Checkpoint) -> None:
    with pytest.raises(
        ModelError, match=r"'lm_head.weight' has shape \(250, 64\), the configuration asks for 256 along"
    ):
        checkpoint.read("lm_head.weight", torch.float32, Cut(0, 0, 128, 256))
