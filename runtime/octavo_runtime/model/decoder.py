"""A decoder of the Llama family: `hidden` runs the layers over a step's tokens, `logits` the head over the rows that need it."""

import torch
from torch import Tensor
from torch.nn import functional

from octavo_runtime.model.attention import AttentionBackend, AttentionMeta, HeadNorms
from octavo_runtime.model.compute import Compute, TorchCompute
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.rotary import Rotary
from octavo_runtime.model.sampler import Drawing
from octavo_runtime.model.weights import WeightReader


class Attention:
    """Grouped-query self-attention with rotary positions over paged keys and values."""

    def __init__(self, config: ModelConfig, weights: WeightReader, prefix: str, compute: Compute) -> None:
        self._config = config
        hidden, width = config.hidden_size, config.head_dim
        heads = {"q": config.heads, "k": config.kv_heads, "v": config.kv_heads}
        rows = {f"{prefix}.{part}_proj": count * width for part, count in heads.items()}
        self._qkv = compute.product(weights, {f"{name}.weight": (count, hidden) for name, count in rows.items()})
        self._bias = None
        if config.qkv_bias:
            self._bias = torch.cat([compute.vector(weights, f"{name}.bias", count) for name, count in rows.items()])
        self._norms = None
        if config.qk_norm:
            q, k = (compute.vector(weights, f"{prefix}.{part}_norm.weight", width) for part in ("q", "k"))
            self._norms = HeadNorms(q, k, config.norm_eps)
        self._out = compute.product(weights, {f"{prefix}.o_proj.weight": (hidden, config.heads * width)})

    def __call__(
        self, x: Tensor, rotary: Rotary, backend: AttentionBackend, kv_layer: Tensor, meta: AttentionMeta
    ) -> Tensor:
        config = self._config
        qkv = self._qkv(x, addend=self._bias).view(len(x), -1, config.head_dim)
        q = backend.rotate_and_write(qkv, rotary, self._norms, kv_layer, meta)
        attended = backend.attend(q, kv_layer, meta, config.head_dim**-0.5, config.window, None, None)
        return self._out(attended.flatten(1))


class Mlp:
    """SwiGLU: down(SiLU(gate(x)) · up(x))."""

    def __init__(self, config: ModelConfig, weights: WeightReader, prefix: str, compute: Compute) -> None:
        wide, hidden = config.intermediate_size, config.hidden_size
        self._gate_up = compute.product(
            weights, {f"{prefix}.{part}_proj.weight": (wide, hidden) for part in ("gate", "up")}
        )
        self._down = compute.product(weights, {f"{prefix}.down_proj.weight": (hidden, wide)})

    def __call__(self, x: Tensor) -> Tensor:
        return self._down(self._gate_up(x, epilogue="silu_mul"))


class Layer:
    def __init__(self, config: ModelConfig, weights: WeightReader, prefix: str, compute: Compute) -> None:
        self._compute = compute
        self._eps = config.norm_eps
        self._attention_norm = compute.vector(weights, f"{prefix}.input_layernorm.weight", config.hidden_size)
        self._attention = Attention(config, weights, f"{prefix}.self_attn", compute)
        self._mlp_norm = compute.vector(weights, f"{prefix}.post_attention_layernorm.weight", config.hidden_size)
        self._mlp = Mlp(config, weights, f"{prefix}.mlp", compute)

    def __call__(
        self,
        residual: Tensor,
        delta: Tensor | None,
        rotary: Rotary,
        backend: AttentionBackend,
        kv_layer: Tensor,
        meta: AttentionMeta,
    ) -> Tensor:
        """Adds `delta` and then the attention's part to `residual`; → the MLP's part, for whoever comes next to add."""
        normed = self._compute.add_rms_norm(residual, delta, self._attention_norm, self._eps)
        delta = self._attention(normed, rotary, backend, kv_layer, meta)
        return self._mlp(self._compute.add_rms_norm(residual, delta, self._mlp_norm, self._eps))


class Decoder:
    """The whole model. `positions`: the longest context that will be asked for, in tokens."""

    def __init__(
        self,
        config: ModelConfig,
        weights: WeightReader,
        positions: int,
        device: torch.device,
        compute: Compute | None = None,
    ) -> None:
        self.config = config
        self._compute = compute or TorchCompute()
        shape = (config.vocab_size, config.hidden_size)
        self._embedding = self._compute.embedding(weights, "model.embed_tokens.weight", shape)
        self._layers = [Layer(config, weights, f"model.layers.{i}", self._compute) for i in range(config.layers)]
        self._norm = self._compute.vector(weights, "model.norm.weight", config.hidden_size)
        tied = config.tied_embeddings and not weights.has("lm_head.weight")
        self._head = self._embedding.product() if tied else self._compute.product(weights, {"lm_head.weight": shape})
        weights.finish()
        self._rotary = Rotary.build(config, positions, device)

    def hidden(self, ids: Tensor, meta: AttentionMeta, backend: AttentionBackend, kv_layers: list[Tensor]) -> Tensor:
        """ids int64 `[T]` → the last layer's normed output `[T, hidden]`; writes the step's keys and values."""
        residual, delta = self._embedding.rows(ids), None
        for layer, kv_layer in zip(self._layers, kv_layers, strict=True):
            delta = layer(residual, delta, self._rotary, backend, kv_layer, meta)
        return self._compute.add_rms_norm(residual, delta, self._norm, self.config.norm_eps)

    def padded_rows(self, rows: int) -> int:
        """How many tokens it pays to fill a step of `rows` tokens up to."""
        return self._compute.padded_rows(rows)

    def logits(self, hidden: Tensor) -> Tensor:
        """`[R, hidden]` → fp32 `[R, vocab]`."""
        return self._head(self._filled(hidden))[: len(hidden)].float()

    def likeliest(self, hidden: Tensor) -> Tensor:
        """The token of the greatest logit of each row, of equal ones the lowest: int64 `[R]`."""
        return self._head.argmax(self._filled(hidden))[: len(hidden)]

    @property
    def drawing(self) -> Drawing:
        return self._compute.drawing

    def _filled(self, hidden: Tensor) -> Tensor:
        missing = self.padded_rows(len(hidden)) - len(hidden)
        return functional.pad(hidden, (0, 0, 0, missing)) if missing else hidden
