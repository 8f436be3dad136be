"""The layers of a decoder as one call of the CPU kernels, which saves a step of one token a tenth of its time."""

import ctypes
from collections.abc import Sequence

from torch import Tensor

from octavo_kernels.cpu.kernels import CpuKernels
from octavo_kernels.cpu.library import Layer, Model, PackedWeight
from octavo_runtime.model.attention import AttentionBackend, AttentionMeta
from octavo_runtime.model.compute import LayerWeights, Product
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.cpu_attention import CpuBackend, weighed_by_kernels
from octavo_runtime.model.cpu_product import CpuProduct
from octavo_runtime.model.rotary import Rotary


class CpuLayers:
    def __init__(
        self, config: ModelConfig, weights: Sequence[LayerWeights], rotary: Rotary, kernels: CpuKernels
    ) -> None:
        self._config = config
        self._kernels = kernels
        self._weights = weights  # the entries point into them
        self._rotary = rotary
        self._layers = (Layer * len(weights))(*map(_entry, weights))

    def __call__(
        self, residual: Tensor, meta: AttentionMeta, backend: AttentionBackend, kv_layers: Sequence[Tensor]
    ) -> Tensor | None:
        assert isinstance(backend, CpuBackend)
        config, rotary = self._config, self._rotary
        model = Model(
            *(backend.pages.shapes, config.hidden_size, config.intermediate_size, config.window or 0),
            *(config.norm_eps, config.head_dim**-0.5, rotary.cos.data_ptr(), rotary.sin.data_ptr()),
        )
        step = meta.pos, meta.slot_map, meta.page_table, meta.cu_q, meta.kv_len
        weighed = weighed_by_kernels(meta.importance)
        self._kernels.layers(model, self._layers, kv_layers, step, residual, meta.forms, weighed)
        return None


def _entry(layer: LayerWeights) -> Layer:
    norms = layer.head_norms
    return Layer(
        *(_address(layer.attention_norm), _address(layer.mlp_norm), _address(layer.qkv_bias)),
        *((None, None) if norms is None else (_address(norms.q), _address(norms.k))),
        *(_packed(layer.qkv), _packed(layer.out), _packed(layer.gate_up), _packed(layer.down)),
    )


def _address(vector: Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if vector is None else vector.data_ptr())


def _packed(product: Product) -> PackedWeight:
    assert isinstance(product, CpuProduct)
    return product.weight.entry
