"""Products with packed weights and the embedding, by the CPU kernels."""

from torch import Tensor

from octavo_kernels.cpu.kernels import CpuKernels, Packed
from octavo_runtime.model.compute import Product
from octavo_runtime.model.linear import Epilogue


class CpuProduct:
    def __init__(self, kernels: CpuKernels, weight: Packed) -> None:
        self._kernels = kernels
        self.weight = weight

    def __call__(self, x: Tensor, epilogue: Epilogue = "none", addend: Tensor | None = None) -> Tensor:
        if epilogue == "silu_mul":
            assert addend is None  # no model of the family has a bias there
            return self._kernels.gated(self.weight, x)
        return self._kernels.linear(self.weight, x, addend)

    def argmax(self, x: Tensor) -> Tensor:
        return self._kernels.argmax(self.weight, x)


class CpuEmbedding:
    def __init__(self, kernels: CpuKernels, weight: Packed) -> None:
        self._kernels = kernels
        self._weight = weight

    def rows(self, ids: Tensor) -> Tensor:
        return self._kernels.rows(self._weight, ids)

    def product(self) -> Product:
        return CpuProduct(self._kernels, self._weight)
