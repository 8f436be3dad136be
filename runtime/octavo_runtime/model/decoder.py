"""A decoder of the Llama family: `hidden` runs the layers over a step's tokens, `logits` the head over the rows that need it."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from octavo_kernels import reference
from octavo_runtime.model.attention import AttentionBackend, AttentionMeta
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.linear import Linear, padded_rows
from octavo_runtime.model.rotary import rotary_tables
from octavo_runtime.model.weights import WeightReader

NewLinear = Callable[[], Linear]


class Attention:
    """Grouped-query self-attention with rotary positions over paged keys and values."""

    def __init__(self, config: ModelConfig, weights: WeightReader, prefix: str, linear: NewLinear) -> None:
        self._config = config
        hidden, width = config.hidden_size, config.head_dim
        heads = {"q": config.heads, "k": config.kv_heads, "v": config.kv_heads}
        self._qkv, self._out = linear(), linear()
        for part, count in heads.items():
            self._qkv.load(weights.take(f"{prefix}.{part}_proj.weight", (count * width, hidden)))
        self._qkv.finalize()
        self._bias = None
        if config.qkv_bias:
            biases = [weights.take(f"{prefix}.{part}_proj.bias", (count * width,)) for part, count in heads.items()]
            self._bias = torch.cat(biases)
        self._q_norm = weights.take(f"{prefix}.q_norm.weight", (width,)) if config.qk_norm else None
        self._k_norm = weights.take(f"{prefix}.k_norm.weight", (width,)) if config.qk_norm else None
        self._out.load(weights.take(f"{prefix}.o_proj.weight", (hidden, config.heads * width)))
        self._out.finalize()

    def __call__(
        self, x: Tensor, cos: Tensor, sin: Tensor, backend: AttentionBackend, kv_layer: Tensor, meta: AttentionMeta
    ) -> Tensor:
        config = self._config
        counts = [config.heads, config.kv_heads, config.kv_heads]
        qkv = self._qkv(x, addend=self._bias).view(len(x), -1, config.head_dim)
        q, k, v = torch.split(qkv, counts, dim=1)
        if self._q_norm is not None and self._k_norm is not None:
            q = reference.rms_norm(q, self._q_norm, config.norm_eps)
            k = reference.rms_norm(k, self._k_norm, config.norm_eps)
        q, k = reference.rope(q, cos, sin), reference.rope(k, cos, sin)
        backend.write(k, v, kv_layer, meta)
        attended = backend.attend(q, kv_layer, meta, config.head_dim**-0.5, config.window, None, None)
        return self._out(attended.flatten(1))


class Mlp:
    """SwiGLU: down(SiLU(gate(x)) · up(x))."""

    def __init__(self, config: ModelConfig, weights: WeightReader, prefix: str, linear: NewLinear) -> None:
        wide, hidden = config.intermediate_size, config.hidden_size
        self._gate_up, self._down = linear(), linear()
        self._gate_up.load(weights.take(f"{prefix}.gate_proj.weight", (wide, hidden)))
        self._gate_up.load(weights.take(f"{prefix}.up_proj.weight", (wide, hidden)))
        self._gate_up.finalize()
        self._down.load(weights.take(f"{prefix}.down_proj.weight", (hidden, wide)))
        self._down.finalize()

    def __call__(self, x: Tensor) -> Tensor:
        return self._down(self._gate_up(x, epilogue="silu_mul"))


class Layer:
    def __init__(self, config: ModelConfig, weights: WeightReader, prefix: str, linear: NewLinear) -> None:
        self._eps = config.norm_eps
        self._attention_norm = weights.take(f"{prefix}.input_layernorm.weight", (config.hidden_size,))
        self._attention = Attention(config, weights, f"{prefix}.self_attn", linear)
        self._mlp_norm = weights.take(f"{prefix}.post_attention_layernorm.weight", (config.hidden_size,))
        self._mlp = Mlp(config, weights, f"{prefix}.mlp", linear)

    def __call__(
        self, x: Tensor, cos: Tensor, sin: Tensor, backend: AttentionBackend, kv_layer: Tensor, meta: AttentionMeta
    ) -> Tensor:
        normed = reference.rms_norm(x, self._attention_norm, self._eps)
        x = x + self._attention(normed, cos, sin, backend, kv_layer, meta)
        return x + self._mlp(reference.rms_norm(x, self._mlp_norm, self._eps))


class Decoder:
    """The whole model. `positions`: the longest context that will be asked for, in tokens; `linear` makes its products."""

    def __init__(
        self,
        config: ModelConfig,
        weights: WeightReader,
        positions: int,
        device: torch.device,
        linear: NewLinear = Linear,
    ) -> None:
        self.config = config
        shape = (config.vocab_size, config.hidden_size)
        self._embedding = weights.take("model.embed_tokens.weight", shape)
        self._layers = [Layer(config, weights, f"model.layers.{i}", linear) for i in range(config.layers)]
        self._norm = weights.take("model.norm.weight", (config.hidden_size,))
        tied = config.tied_embeddings and not weights.has("lm_head.weight")
        self._head = linear()
        self._head.load(self._embedding if tied else weights.take("lm_head.weight", shape))
        self._head.finalize()
        weights.finish()
        self._cos, self._sin = rotary_tables(config, positions, device)

    def hidden(self, ids: Tensor, meta: AttentionMeta, backend: AttentionBackend, kv_layers: list[Tensor]) -> Tensor:
        """ids int64 `[T]` → the last layer's normed output `[T, hidden]`; writes the step's keys and values."""
        x = self._embedding[ids]
        cos, sin = (table[meta.pos].to(x.dtype) for table in (self._cos, self._sin))  # once, not in each layer
        for layer, kv_layer in zip(self._layers, kv_layers, strict=True):
            x = layer(x, cos, sin, backend, kv_layer, meta)
        return reference.rms_norm(x, self._norm, self.config.norm_eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """`[R, hidden]` → fp32 `[R, vocab]`."""
        rows = len(hidden)
        filled = functional.pad(hidden, (0, 0, 0, padded_rows(rows) - rows))
        return self._head(filled)[:rows].float()
