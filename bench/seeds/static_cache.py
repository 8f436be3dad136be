"""transformers' static cache, the contiguous counterpart: what it really allocates for one session of a whole context."""

from pathlib import Path


def session_bytes(model: Path, context_tokens: int) -> int:
    """Bytes of the fp32 tensors that a `StaticCache` of one sequence allocates at its start."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(model)
    cache = transformers.StaticCache(config=config, max_cache_len=context_tokens)
    cache.early_initialization(1, config.num_key_value_heads, config.head_dim, torch.float32, torch.device("cpu"))
    return sum(tensor.numel() * tensor.itemsize for layer in cache.layers for tensor in (layer.keys, layer.values))
