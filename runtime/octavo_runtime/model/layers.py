"""The layers of a decoder, one call of the compute or the attention back end after the other."""

from collections.abc import Sequence

from torch import Tensor

from octavo_runtime.model.attention import AttentionBackend, AttentionMeta
from octavo_runtime.model.compute import Compute, LayerWeights
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.rotary import Rotary


class LayerLoop:
    def __init__(self, config: ModelConfig, weights: Sequence[LayerWeights], rotary: Rotary, compute: Compute) -> None:
        self._config = config
        self._weights = weights
        self._rotary = rotary
        self._compute = compute

    def __call__(
        self, residual: Tensor, meta: AttentionMeta, backend: AttentionBackend, kv_layers: Sequence[Tensor]
    ) -> Tensor | None:
        delta: Tensor | None = None
        for layer, kv_layer in zip(self._weights, kv_layers, strict=True):
            normed = self._add_norm(residual, delta, layer.attention_norm)
            delta = self._attention(layer, normed, meta, backend, kv_layer)
            normed = self._add_norm(residual, delta, layer.mlp_norm)
            delta = layer.down(layer.gate_up(normed, epilogue="silu_mul"))
        return delta

    def _add_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor) -> Tensor:
        return self._compute.add_rms_norm(residual, delta, weight, self._config.norm_eps)

    def _attention(
        self, layer: LayerWeights, x: Tensor, meta: AttentionMeta, backend: AttentionBackend, kv_layer: Tensor
    ) -> Tensor:
        """Grouped-query self-attention with rotary positions over paged keys and values."""
        config = self._config
        qkv = layer.qkv(x, addend=layer.qkv_bias).view(len(x), -1, config.head_dim)
        q = backend.rotate_and_write(qkv, self._rotary, layer.head_norms, kv_layer, meta)
        attended = backend.attend(q, kv_layer, meta, config.head_dim**-0.5, config.window, None, None, meta.importance)
        return layer.out(attended.flatten(1))
