"""A checkpoint of seeded random weights, made on the device where they are used: no file, so as large as the device holds."""

from pathlib import Path

import torch

from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.sharding import Cut

TINY = ModelConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=96,
    layers=2,
    heads=8,
    kv_heads=2,
    head_dim=16,
    norm_eps=1e-5,
    rope_theta=10_000.0,
    max_position=512,
    tied_embeddings=False,
)


class RandomCheckpoint:
    """A `Checkpoint`. Tensors depend on the seed and their names; norms are near 1, all else normal with deviation `spread`."""

    def __init__(self, config: ModelConfig, device: torch.device, spread: float = 0.2, seed: int = 0) -> None:
        self.path = Path("random")
        self.config = config
        self._device = device
        self._spread = spread
        self._seed = seed
        self._shapes = _shapes(config)

    def names(self) -> set[str]:
        return set(self._shapes)

    def read(self, name: str, dtype: torch.dtype, part: Cut | None = None) -> torch.Tensor:
        generator = torch.Generator(self._device).manual_seed(self._seed + sorted(self._shapes).index(name))
        drawn = torch.randn(self._shapes[name], generator=generator, device=self._device, dtype=dtype) * self._spread
        whole = 1 + drawn if "norm" in name else drawn
        return whole if part is None else whole.narrow(part.axis, part.begin, part.end - part.begin)

    def fingerprint(self) -> bytes:
        return self._seed.to_bytes(32, "big")


def _shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    hidden, wide = config.hidden_size, config.intermediate_size
    rows = {
        "q": config.heads * config.head_dim,
        "k": config.kv_heads * config.head_dim,
        "v": config.kv_heads * config.head_dim,
    }
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocab_size, hidden),
        "model.norm.weight": (hidden,),
    }
    if not config.tied_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    for layer in (f"model.layers.{index}" for index in range(config.layers)):
        for part, count in rows.items():
            shapes[f"{layer}.self_attn.{part}_proj.weight"] = (count, hidden)
            if config.qkv_bias:
                shapes[f"{layer}.self_attn.{part}_proj.bias"] = (count,)
        if config.qk_norm:
            for part in ("q", "k"):
                shapes[f"{layer}.self_attn.{part}_norm.weight"] = (config.head_dim,)
        shapes[f"{layer}.self_attn.o_proj.weight"] = (hidden, rows["q"])
        shapes |= {f"{layer}.mlp.{part}_proj.weight": (wide, hidden) for part in ("gate", "up")}
        shapes[f"{layer}.mlp.down_proj.weight"] = (hidden, wide)
        shapes |= {f"{layer}.{norm}_layernorm.weight": (hidden,) for norm in ("input", "post_attention")}
    return shapes
