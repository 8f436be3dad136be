"""A seeded random Llama whose tokens are bytes, as a Hugging Face folder. Written with numpy, for transformers takes seconds."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tests.runtime.text.tiny import VOCAB_SIZE, save_byte_tokenizer

CONTEXT_TOKENS = 8192
HIDDEN, MLP, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 64, 128, 2, 8, 2, 16
SPREAD = 0.2  # wide enough that the answers differ from prompt to prompt

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCAB_SIZE,
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "hidden_act": "silu",
    "max_position_embeddings": CONTEXT_TOKENS,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


def save_tiny_chat_model(folder: Path) -> Path:
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(_weights(), folder / "model.safetensors")
    save_byte_tokenizer(folder)
    return folder


def _weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return random.normal(0.0, SPREAD, (rows, columns)).astype(np.float32)

    weights = {
        "model.embed_tokens.weight": matrix(VOCAB_SIZE, HIDDEN),
        "model.norm.weight": np.ones(HIDDEN, np.float32),
        "lm_head.weight": matrix(VOCAB_SIZE, HIDDEN),
    }
    for layer in range(LAYERS):
        weights |= {
            f"model.layers.{layer}.{name}.weight": tensor
            for name, tensor in {
                "input_layernorm": np.ones(HIDDEN, np.float32),
                "self_attn.q_proj": matrix(HEADS * HEAD_DIM, HIDDEN),
                "self_attn.k_proj": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
                "self_attn.v_proj": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
                "self_attn.o_proj": matrix(HIDDEN, HEADS * HEAD_DIM),
                "post_attention_layernorm": np.ones(HIDDEN, np.float32),
                "mlp.gate_proj": matrix(MLP, HIDDEN),
                "mlp.up_proj": matrix(MLP, HIDDEN),
                "mlp.down_proj": matrix(HIDDEN, MLP),
            }.items()
        }
    return weights
