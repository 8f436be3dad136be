"""Writes a tiny Hugging Face model as a GGUF file, rows of q and k reordered as that format has them for the llama architecture."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_ENDS = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}

Array = npt.NDArray[np.float32]


Metadata = Mapping[str, int | float | str]


def write_gguf(path: Path, folder: Path, kind: str = "F32", metadata: Metadata | None = None) -> Path:
    """Write the model of `folder` with matrices of `kind` (a ggml type), vectors in fp32; `metadata` replaces or adds entries."""
    config = json.loads((folder / "config.json").read_text())
    architecture = config["model_type"]
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in {**_metadata(architecture, config), **(metadata or {})}.items():
        {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)](key, value)
    for name, tensor in load_file(folder / "model.safetensors").items():
        if architecture == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            tensor = to_pairs(tensor, config["head_dim"])
        if tensor.ndim == 1:
            writer.add_tensor(gguf_name(name), tensor)
        else:
            ggml_type = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(gguf_name(name), gguf.quants.quantize(tensor, ggml_type), raw_dtype=ggml_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_name(name: str) -> str:
    if name in _ENDS:
        return _ENDS[name]
    _, _, layer, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{_PARTS[part]}.{kind}"


def to_pairs(weight: Array, head_dim: int) -> Array:
    """Rows i and i + D/2 of a head become neighbours 2i and 2i + 1: rotary pairs instead of rotary halves."""
    out = np.empty_like(weight)
    for first in range(0, len(weight), head_dim):
        for i in range(head_dim // 2):
            out[first + 2 * i] = weight[first + i]
            out[first + 2 * i + 1] = weight[first + head_dim // 2 + i]
    return out


def _metadata(architecture: str, config: dict[str, Any]) -> Metadata:
    entries = {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "rope.freq_base": float(config["rope_parameters"]["rope_theta"]),
    }
    return {f"{architecture}.{key}": value for key, value in entries.items()}
