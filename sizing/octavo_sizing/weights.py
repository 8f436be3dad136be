"""Bytes of weights, and of what else grows with the model, that a rank holds beside its KV cache."""

from octavo_sizing.model import Model
from octavo_sizing.setup import DTYPE_BYTES, Setup
from octavo_sizing.sharding import local_kv_heads, vocabulary_rows

_FLOAT_BYTES = 4


def parameters(model: Model, ranks: int = 1) -> int:
    """Elements of the weights of rank 0, which holds as many as any other."""
    heads, kv_heads = model.heads // ranks, local_kv_heads(model, ranks)
    wide = model.intermediate_size // ranks
    qkv_rows = (heads + 2 * kv_heads) * model.head_dim
    attention = model.hidden_size * (qkv_rows + heads * model.head_dim)
    mlp = 3 * model.hidden_size * wide
    norms = 2 * model.hidden_size + (2 * model.head_dim if model.qk_norm else 0)
    biases = qkv_rows if model.qkv_bias else 0
    vocabulary = vocabulary_rows(model.vocab_size, ranks) * model.hidden_size
    tables = vocabulary if model.tied_embeddings else 2 * vocabulary
    return model.layers * (attention + mlp + norms + biases) + tables + model.hidden_size


def weights_bytes(model: Model, setup: Setup) -> int:
    """Of one rank. Whatever the files hold, it computes in the setup's type."""
    return parameters(model, setup.tensor) * DTYPE_BYTES[setup.dtype]


def rotary_bytes(model: Model, context_tokens: int) -> int:
    """Cosines and sines of every position, in fp32; each rank has them."""
    return context_tokens * model.head_dim * _FLOAT_BYTES


def workspace_bytes(model: Model, setup: Setup) -> int:
    """The most that a step asks for: an MLP over all of its tokens, or logits of all of its sequences, in two types and once more
    for drawing. Everything else of a step is smaller and its memory is used again."""
    itemsize = DTYPE_BYTES[setup.dtype] if setup.device == "gpu" else _FLOAT_BYTES
    wide = 3 * model.intermediate_size // setup.tensor
    layers = setup.max_num_batched_tokens * (2 * model.hidden_size + wide) * itemsize
    sequences = min(setup.max_num_seqs, setup.max_num_batched_tokens)
    return max(layers, sequences * model.vocab_size * (itemsize + 2 * _FLOAT_BYTES))
