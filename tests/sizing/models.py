"""Sizes of models that people serve, from their `config.json`."""

from octavo_sizing.model import Model

SMOLLM2_135M = Model(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    layers=30,
    heads=9,
    kv_heads=3,
    head_dim=64,
    max_position=8192,
    tied_embeddings=True,
)
LLAMA_8B = Model(
    vocab_size=128256,
    hidden_size=4096,
    intermediate_size=14336,
    layers=32,
    heads=32,
    kv_heads=8,
    head_dim=128,
    max_position=131072,
)
LLAMA_70B = Model(
    vocab_size=128256,
    hidden_size=8192,
    intermediate_size=28672,
    layers=80,
    heads=64,
    kv_heads=8,
    head_dim=128,
    max_position=131072,
)
QWEN2_5_0_5B = Model(
    vocab_size=151936,
    hidden_size=896,
    intermediate_size=4864,
    layers=24,
    heads=14,
    kv_heads=2,
    head_dim=64,
    max_position=32768,
    tied_embeddings=True,
    qkv_bias=True,
)
QWEN2_5_7B = Model(
    vocab_size=152064,
    hidden_size=3584,
    intermediate_size=18944,
    layers=28,
    heads=28,
    kv_heads=4,
    head_dim=128,
    max_position=32768,
    qkv_bias=True,
)
QWEN3_8B = Model(
    vocab_size=151936,
    hidden_size=4096,
    intermediate_size=12288,
    layers=36,
    heads=32,
    kv_heads=8,
    head_dim=128,
    max_position=40960,
    qk_norm=True,
)
MISTRAL_7B = Model(
    vocab_size=32000,
    hidden_size=4096,
    intermediate_size=14336,
    layers=32,
    heads=32,
    kv_heads=8,
    head_dim=128,
    max_position=32768,
    window=4096,
)
