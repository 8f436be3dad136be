"""What computes on a CPU: our kernels where they can, else plain torch, which works and says once that it is slow."""

import dataclasses
import logging

import torch

from octavo_kernels.cpu.kernels import MOST_GROUP, CpuKernels
from octavo_kernels.cpu.library import UnavailableError, best_library
from octavo_runtime.config import ServeConfig
from octavo_runtime.model.attention import AttentionBackend, AttentionShape, ReferenceBackend
from octavo_runtime.model.compute import Compute
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.cpu_attention import CpuBackend
from octavo_runtime.model.cpu_compute import CpuCompute
from octavo_runtime.model.linear import Linear, TiledLinear
from octavo_runtime.model.mixed_attention import MixedBackend
from octavo_runtime.model.packed_weights import WeightsCache
from octavo_runtime.model.tiled_attention import TiledBackend
from octavo_runtime.model.torch_compute import TorchCompute

log = logging.getLogger("octavo.engine")

_PAGE_MULTIPLE = 16  # tokens of a panel of keys
_MOST_HEAD_DIM = 256


@dataclasses.dataclass(frozen=True)
class CpuModel:
    """`dtype`: of weights, keys and values."""

    torch_compute: TorchCompute | None  # where no kernels do
    dtype: torch.dtype
    kernels: CpuKernels | None  # None: plain torch
    batch_invariant: bool

    def computing(self, cache: WeightsCache | None = None) -> Compute:
        """What multiplies with weights: packed ones come from `cache` where it has them."""
        if self.kernels is not None:
            return CpuCompute(self.kernels, cache.packer(self.kernels) if cache is not None else None)
        assert self.torch_compute is not None
        return self.torch_compute

    def backend(self, shape: AttentionShape) -> AttentionBackend:
        if self.kernels is not None:
            return CpuBackend(shape, self.kernels)
        kind = TiledBackend if self.batch_invariant else ReferenceBackend
        shapes = [dataclasses.replace(shape, page_size=form.page_size, forms=(form,)) for form in shape.kv_forms]
        return kind(shape) if len(shapes) == 1 else MixedBackend([kind(one) for one in shapes])


def choose(config: ServeConfig, model: ModelConfig, page_size: int, threads: int) -> CpuModel:
    """The kernels work in bfloat16; where they cannot, `auto` is float32 unless the CPU multiplies bfloat16 itself."""
    reason = _lacks(model, page_size)
    if config.dtype == "float32":
        reason = "--dtype float32 was asked for"
    elif reason is None:
        try:
            kernels = CpuKernels(best_library(threads))
        except UnavailableError as error:
            reason = str(error)
        else:
            log.info("CPU kernels: tier %s, %d threads", kernels.tier, threads)
            return CpuModel(None, torch.bfloat16, kernels, config.batch_invariant)
    level = logging.INFO if config.dtype == "float32" else logging.WARNING
    log.log(level, "plain torch computes, several times slower than the CPU kernels: %s", reason)
    dtype = torch.bfloat16 if config.dtype == "bfloat16" or _multiplies_bfloat16(config) else torch.float32
    compute = TorchCompute(TiledLinear if config.batch_invariant else Linear)
    return CpuModel(compute, dtype, None, config.batch_invariant)


def _lacks(model: ModelConfig, page_size: int) -> str | None:
    """What of the model or its pages the kernels do not take."""
    if model.hidden_size % 2 or model.intermediate_size % _PAGE_MULTIPLE:
        return f"they take an even hidden size and an MLP of whole 16, not {model.hidden_size} and {model.intermediate_size}"
    if model.head_dim % 16 or model.head_dim > _MOST_HEAD_DIM:
        return f"they take head dimensions of whole 16 up to {_MOST_HEAD_DIM}, not {model.head_dim}"
    if model.heads // model.kv_heads > MOST_GROUP:
        return f"they take at most {MOST_GROUP} query heads to a KV head, not {model.heads // model.kv_heads}"
    if page_size % _PAGE_MULTIPLE:
        return f"they take pages of whole 16 tokens, not {page_size}: set --block-size"
    return None


def _multiplies_bfloat16(config: ServeConfig) -> bool:
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return config.dtype == "auto" and native
