"""What a decoder of the Llama family is made of, read from a Hugging Face `config.json` or GGUF metadata.

The family: RMSNorm before attention and MLP, rotary positions, grouped-query attention, SwiGLU. Its members differ in the fields
below (Qwen2 adds biases to q, k and v; Qwen3 normalises q and k per head; Mistral may look back a window only). A model that
needs what is not here is refused by name, never run wrong.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from octavo_runtime.gguf_file import GgufHeader


class ModelError(ValueError):
    """The model cannot be loaded; the text names the file, what is wrong and what would do."""


@dataclasses.dataclass(frozen=True)
class RopeScaling:
    """Llama 3's frequency scaling (`rope_type: llama3`)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position: int


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Sizes in elements; `max_position` in tokens."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    max_position: int
    tied_embeddings: bool
    qkv_bias: bool = False
    qk_norm: bool = False
    window: int | None = None
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ModelError(f"{self.heads} attention heads cannot share {self.kv_heads} KV heads evenly")
        if self.head_dim % 2:
            raise ModelError(f"head dimension {self.head_dim} is odd: rotary positions need pairs")


_HF_ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_GGUF_ARCHITECTURES = ("llama", "qwen2", "qwen3")


def from_hugging_face(folder: Path) -> ModelConfig:
    """Read `config.json`. Raises ModelError for architectures and options that the layers do not have."""
    path = folder / "config.json"
    try:
        raw = json.loads(path.read_text())
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}): put it right, or fetch it again") from error
    except ValueError as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}): fetch it again") from error
    return from_hugging_face_json(path, raw)


def from_hugging_face_json(path: Path, raw: object) -> ModelConfig:
    """The content of a `config.json`, which messages call `path`. Raises ModelError."""
    if not isinstance(raw, dict):
        raise ModelError(f"{path} is not a JSON object: give a Hugging Face config.json")
    architecture = (raw.get("architectures") or ["(none)"])[0]
    if architecture not in _HF_ARCHITECTURES:
        raise ModelError(
            f"{path}: architecture {architecture} is not supported; supported: {', '.join(_HF_ARCHITECTURES)}"
        )
    if raw.get("quantization_config"):
        raise ModelError(
            f"{path}: quantized checkpoints (quantization_config) are not supported by this version: give the model in bfloat16, "
            "float16 or float32, or as GGUF"
        )
    _refuse(path, "hidden_act", raw.get("hidden_act", "silu"), "silu")
    _refuse(path, "mlp_bias", raw.get("mlp_bias", False), False)
    if architecture != "Qwen2ForCausalLM":
        _refuse(path, "attention_bias", raw.get("attention_bias", False), False)
    heads, hidden = _size(path, raw, "num_attention_heads"), _size(path, raw, "hidden_size")
    theta, scaling = _rope(path, raw)
    return ModelConfig(
        vocab_size=_size(path, raw, "vocab_size"),
        hidden_size=hidden,
        intermediate_size=_size(path, raw, "intermediate_size"),
        layers=_size(path, raw, "num_hidden_layers"),
        heads=heads,
        kv_heads=_size(path, raw, "num_key_value_heads") if raw.get("num_key_value_heads") is not None else heads,
        head_dim=_size(path, raw, "head_dim") if raw.get("head_dim") is not None else hidden // heads,
        norm_eps=_number(path, raw, "rms_norm_eps"),
        rope_theta=theta,
        max_position=_size(path, raw, "max_position_embeddings"),
        tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
        window=_window(path, raw, architecture),
        rope_scaling=scaling,
        qkv_bias=architecture == "Qwen2ForCausalLM",
        qk_norm=architecture == "Qwen3ForCausalLM",
    )


def from_gguf(path: Path, header: GgufHeader) -> ModelConfig:
    """Read a GGUF header. Raises ModelError for architectures that the layers do not have, GgufError for missing keys."""
    architecture = header.text("general.architecture")
    if architecture not in _GGUF_ARCHITECTURES:
        raise ModelError(
            f"{path}: architecture '{architecture}' is not supported; supported in GGUF: {', '.join(_GGUF_ARCHITECTURES)}"
        )
    for key in (f"{architecture}.rope.scaling.type", "rope_freqs.weight"):
        if header.metadata.get(key, "none") != "none" or key in header.tensors:
            raise ModelError(
                f"{path}: scaled rotary positions ({key}) are not supported in GGUF; use the safetensors form"
            )

    def size(key: str, default: int | None = None) -> int:
        name = f"{architecture}.{key}"
        value = default if default is not None and name not in header.metadata else header.integer(name)
        if value < 1:
            raise ModelError(f"{path}: {name} = {value}, expected at least 1: the file is damaged, fetch it again")
        return value

    def number(key: str, default: float) -> float:
        name = f"{architecture}.{key}"
        return header.number(name) if name in header.metadata else default

    heads, hidden = size("attention.head_count"), size("embedding_length")
    embedding = header.tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelError(
            f"{path} holds no tensor 'token_embd.weight': it is a vocabulary alone or a part of a model; give a whole GGUF file"
        )
    return ModelConfig(
        vocab_size=embedding.shape[0],
        hidden_size=hidden,
        intermediate_size=size("feed_forward_length"),
        layers=size("block_count"),
        heads=heads,
        kv_heads=size("attention.head_count_kv", default=heads),
        head_dim=size("attention.key_length", default=hidden // heads),
        norm_eps=header.number(f"{architecture}.attention.layer_norm_rms_epsilon"),
        rope_theta=number("rope.freq_base", default=10000.0),
        max_position=size("context_length"),
        tied_embeddings="output.weight" not in header.tensors,
        qkv_bias=architecture == "qwen2",
        qk_norm=architecture == "qwen3",
    )


def _rope(path: Path, raw: dict[str, Any]) -> tuple[float, RopeScaling | None]:
    """Base frequency and scaling, from today's `rope_parameters` or the older `rope_theta` with `rope_scaling`."""
    parameters = raw.get("rope_parameters") or {
        **(raw.get("rope_scaling") or {}),
        "rope_theta": raw.get("rope_theta", 10000.0),
    }
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    theta = _number(path, {"rope_theta": 10000.0, **parameters}, "rope_theta")
    _refuse(path, "partial_rotary_factor", parameters.get("partial_rotary_factor", 1.0), 1.0)
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise ModelError(f"{path}: rope_type '{kind}' is not supported; supported: default, llama3")
    return theta, RopeScaling(
        factor=_number(path, parameters, "factor"),
        low_freq_factor=_number(path, parameters, "low_freq_factor"),
        high_freq_factor=_number(path, parameters, "high_freq_factor"),
        original_max_position=_size(path, parameters, "original_max_position_embeddings"),
    )


def _window(path: Path, raw: dict[str, Any], architecture: str) -> int | None:
    """Mistral's window holds for every layer; Qwen's, where it is switched on, from layer `max_window_layers`; Llama has none."""
    if architecture == "LlamaForCausalLM" or raw.get("sliding_window") is None:
        return None
    if architecture == "MistralForCausalLM":
        return _size(path, raw, "sliding_window")
    if not raw.get("use_sliding_window", False):
        return None
    first = _number(path, {"max_window_layers": 28, **raw}, "max_window_layers")
    layers = range(_size(path, raw, "num_hidden_layers"))
    kinds = set(raw.get("layer_types") or ["sliding_attention" if i >= first else "full_attention" for i in layers])
    if kinds == {"full_attention"}:
        return None
    if kinds != {"sliding_attention"}:
        raise ModelError(f"{path}: layers of different attention windows (layer_types) are not supported")
    return _size(path, raw, "sliding_window")


def _size(path: Path, raw: dict[str, Any], key: str) -> int:
    value = _number(path, raw, key)
    if not isinstance(value, int) or value < 1:
        raise ModelError(f"{path}: {key} = {value!r} is not a whole number of at least 1")
    return value


def _number(path: Path, raw: dict[str, Any], key: str) -> int | float:
    if key not in raw:
        raise ModelError(f"{path} has no '{key}': fetch the model's own config.json again")
    value = raw[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"{path}: {key} = {value!r} is not a number")
    return value


def _refuse(path: Path, key: str, value: object, supported: object) -> None:
    if value != supported:
        raise ModelError(f"{path}: {key} = {value!r} is not supported, only {supported!r}")
