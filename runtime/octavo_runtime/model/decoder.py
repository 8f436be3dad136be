"""A decoder of the Llama family: `hidden` runs the layers over a step's tokens, `logits` the head over the rows that need it."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from octavo_runtime.model.attention import AttentionBackend, AttentionMeta, HeadNorms
from octavo_runtime.model.compute import Compute, LayerWeights
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.rotary import Rotary
from octavo_runtime.model.sampler import Drawing
from octavo_runtime.model.torch_compute import TorchCompute
from octavo_runtime.model.weights import WeightReader


def layer_weights(config: ModelConfig, weights: WeightReader, prefix: str, compute: Compute) -> LayerWeights:
    """The layer whose tensors' names begin with `prefix`. Raises ModelError."""
    hidden, wide, width = config.hidden_size, config.intermediate_size, config.head_dim
    heads = {"q": config.heads, "k": config.kv_heads, "v": config.kv_heads}
    rows = {f"{prefix}.self_attn.{part}_proj": count * width for part, count in heads.items()}
    bias, norms = None, None
    qkv = compute.product(weights, {f"{name}.weight": (count, hidden) for name, count in rows.items()})
    if config.qkv_bias:
        bias = torch.cat([compute.vector(weights, f"{name}.bias", count) for name, count in rows.items()])
    if config.qk_norm:
        q, k = (compute.vector(weights, f"{prefix}.self_attn.{part}_norm.weight", width) for part in ("q", "k"))
        norms = HeadNorms(q, k, config.norm_eps)
    return LayerWeights(
        attention_norm=compute.vector(weights, f"{prefix}.input_layernorm.weight", hidden),
        qkv=qkv,
        qkv_bias=bias,
        head_norms=norms,
        out=compute.product(weights, {f"{prefix}.self_attn.o_proj.weight": (hidden, config.heads * width)}),
        mlp_norm=compute.vector(weights, f"{prefix}.post_attention_layernorm.weight", hidden),
        gate_up=compute.product(
            weights, {f"{prefix}.mlp.{part}_proj.weight": (wide, hidden) for part in ("gate", "up")}
        ),
        down=compute.product(weights, {f"{prefix}.mlp.down_proj.weight": (hidden, wide)}),
    )


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
        names = [f"model.layers.{i}" for i in range(config.layers)]
        layers = [layer_weights(config, weights, name, self._compute) for name in names]
        self._norm = self._compute.vector(weights, "model.norm.weight", config.hidden_size)
        tied = config.tied_embeddings and not weights.has("lm_head.weight")
        self._head = self._embedding.product() if tied else self._compute.product(weights, {"lm_head.weight": shape})
        weights.finish()
        self._layers = self._compute.layers(config, layers, Rotary.build(config, positions, device))

    def hidden(
        self, ids: Tensor, meta: AttentionMeta, backend: AttentionBackend, kv_layers: Sequence[Tensor]
    ) -> Tensor:
        """ids int64 `[T]` → the last layer's normed output `[T, hidden]`; writes the step's keys and values."""
        residual = self._embedding.rows(ids)
        delta = self._layers(residual, meta, backend, kv_layers)
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
    def computed_by(self) -> str:
        return self._compute.name

    @property
    def drawing(self) -> Drawing:
        return self._compute.drawing

    def _filled(self, hidden: Tensor) -> Tensor:
        missing = self.padded_rows(len(hidden)) - len(hidden)
        return functional.pad(hidden, (0, 0, 0, missing)) if missing else hidden
