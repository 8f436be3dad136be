"""What is read from a Hugging Face `config.json`, and what is refused, by name."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from octavo_runtime.model.config import ModelConfig, ModelError, RopeScaling, from_hugging_face

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512,
}
PLAIN = ModelConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    layers=2,
    heads=8,
    kv_heads=2,
    head_dim=8,
    norm_eps=1e-5,
    rope_theta=10000.0,
    max_position=512,
    tied_embeddings=False,
)
LLAMA3 = {"factor": 32, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
SCALED = RopeScaling(32, 1.0, 4.0, 8192)
MISTRAL, QWEN2, QWEN3 = ({"architectures": [f"{name}ForCausalLM"]} for name in ("Mistral", "Qwen2", "Qwen3"))
SLIDING, FULL = "sliding_attention", "full_attention"


def read(folder: Path, raw: object) -> ModelConfig:
    (folder / "config.json").write_text(json.dumps(raw))
    return from_hugging_face(folder)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({}, {}, id="llama"),
        pytest.param({"head_dim": 16}, {"head_dim": 16}, id="head_dim of its own"),
        pytest.param({"head_dim": None}, {"head_dim": 8}, id="null head_dim"),
        pytest.param({"num_key_value_heads": None}, {"kv_heads": 8}, id="every head has its keys"),
        pytest.param({"tie_word_embeddings": True}, {"tied_embeddings": True}, id="tied"),
        pytest.param({"rope_theta": 500000.0}, {"rope_theta": 500000.0}, id="older rope_theta"),
        pytest.param(
            {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
            {"rope_theta": 1e6},
            id="today's rope_parameters",
        ),
        pytest.param({"rope_scaling": None, "rope_theta": 5e5}, {"rope_theta": 5e5}, id="null rope_scaling"),
        pytest.param(
            {"rope_scaling": {"rope_type": "llama3", **LLAMA3}, "rope_theta": 5e5},
            {"rope_theta": 5e5, "rope_scaling": SCALED},
            id="llama3 scaling, older spelling",
        ),
        pytest.param(
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}},
            {"rope_theta": 5e5, "rope_scaling": SCALED},
            id="llama3 scaling, today's spelling",
        ),
        pytest.param(
            {"rope_scaling": {"type": "llama3", **LLAMA3}},
            {"rope_scaling": SCALED},
            id="llama3 scaling, oldest spelling",
        ),
        pytest.param({"sliding_window": 5}, {}, id="llama has no window"),
        pytest.param(MISTRAL | {"sliding_window": 5}, {"window": 5}, id="mistral with a window"),
        pytest.param(MISTRAL | {"sliding_window": None}, {}, id="mistral without"),
        pytest.param(QWEN2, {"qkv_bias": True}, id="qwen2"),
        pytest.param(QWEN2 | {"sliding_window": 5}, {"qkv_bias": True}, id="qwen2, window not switched on"),
        pytest.param(
            QWEN2 | {"sliding_window": 5, "use_sliding_window": False, "max_window_layers": 0},
            {"qkv_bias": True},
            id="qwen2, window switched off",
        ),
        pytest.param(
            QWEN2 | {"sliding_window": 5, "use_sliding_window": True},
            {"qkv_bias": True},
            id="qwen2, window from a layer beyond its own on",
        ),
        pytest.param(
            QWEN2 | {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 0},
            {"qkv_bias": True, "window": 5},
            id="qwen2, window in all layers",
        ),
        pytest.param(
            QWEN3 | {"sliding_window": 5, "use_sliding_window": True, "layer_types": [SLIDING, SLIDING]},
            {"qk_norm": True, "window": 5},
            id="qwen3, window by layer_types",
        ),
        pytest.param(
            QWEN3 | {"sliding_window": 5, "use_sliding_window": True, "layer_types": [FULL, FULL]},
            {"qk_norm": True},
            id="qwen3, no window by layer_types",
        ),
    ],
)
def test_reads(tmp_path: Path, raw: dict[str, Any], expected: dict[str, Any]) -> None:
    assert read(tmp_path, LLAMA | raw) == dataclasses.replace(PLAIN, **expected)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        pytest.param(
            {"architectures": ["GPT2LMHeadModel"]}, ("GPT2LMHeadModel", "LlamaForCausalLM"), id="other architecture"
        ),
        pytest.param({"architectures": None}, ("(none)", "Qwen3ForCausalLM"), id="no architecture"),
        pytest.param({"hidden_act": "gelu"}, ("hidden_act", "gelu", "silu"), id="other activation"),
        pytest.param({"mlp_bias": True}, ("mlp_bias",), id="mlp bias"),
        pytest.param({"attention_bias": True}, ("attention_bias",), id="attention bias"),
        pytest.param(QWEN3 | {"attention_bias": True}, ("attention_bias",), id="attention bias of qwen3"),
        pytest.param(
            {"rope_scaling": {"type": "linear", "factor": 2}}, ("rope_type", "linear", "llama3"), id="other scaling"
        ),
        pytest.param({"rope_scaling": {"rope_type": "llama3"}}, ("'factor'",), id="scaling without factor"),
        pytest.param(
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
            ("partial_rotary_factor", "0.5"),
            id="partly rotary",
        ),
        pytest.param(
            QWEN2 | {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 1},
            ("layer_types",),
            id="window in some layers",
        ),
        pytest.param(
            QWEN3 | {"sliding_window": 5, "use_sliding_window": True, "layer_types": [FULL, SLIDING]},
            ("layer_types",),
            id="layers of two kinds",
        ),
        pytest.param({"vocab_size": "many"}, ("vocab_size", "'many'"), id="text for a number"),
        pytest.param({"hidden_size": 0}, ("hidden_size", "0"), id="zero"),
        pytest.param({"num_attention_heads": 2.5}, ("num_attention_heads", "2.5"), id="half a head"),
        pytest.param({"num_hidden_layers": None}, ("num_hidden_layers", "None"), id="null"),
        pytest.param({"rms_norm_eps": True}, ("rms_norm_eps", "True"), id="truth for a number"),
    ],
)
def test_refuses_and_names_the_file_and_the_field(tmp_path: Path, raw: dict[str, Any], named: tuple[str, ...]) -> None:
    with pytest.raises(ModelError) as refusal:
        read(tmp_path, LLAMA | raw)
    for word in (str(tmp_path / "config.json"), *named):
        assert word in str(refusal.value)


@pytest.mark.parametrize("key", [key for key in LLAMA if key not in ("architectures", "num_key_value_heads")])
def test_a_missing_field_is_named(tmp_path: Path, key: str) -> None:
    with pytest.raises(ModelError, match=f"config.json has no '{key}': fetch the model's own config.json again$"):
        read(tmp_path, {name: value for name, value in LLAMA.items() if name != key})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        pytest.param({"num_key_value_heads": 3}, "8 attention heads cannot share 3 KV heads", id="uneven groups"),
        pytest.param({"head_dim": 7}, "head dimension 7 is odd", id="odd head dimension"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, changes: dict[str, int], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        read(tmp_path, LLAMA | changes)


@pytest.mark.parametrize("text", ["", "{", "[]", '"llama"'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        from_hugging_face(tmp_path)


def test_a_folder_without_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"{tmp_path}/config.json cannot be read"):
        from_hugging_face(tmp_path)
