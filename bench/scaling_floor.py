"""What a decoding step must at least take on this machine, and whether a curve of measured steps grows faster than that.

A step reads every weight once and the keys and values of every sequence once (memory time), and multiplies each token with every
weight and its queries with its context (compute time). Both limits are measured in the same run. The floor is the longer of the
two: that is what full overlap would reach. Growth is compared with their sum, for a step that overlaps nothing still grows no
faster than that.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence

import torch

from octavo_runtime.model.config import ModelConfig

TOLERANCE = 1.5  # of a curve's growth over its floor's: less is within what such a machine drifts
READ_BYTES = 512 << 20  # far more than any cache
PRODUCT_SIZE = 1024
PROBES = 5


@dataclasses.dataclass(frozen=True)
class Machine:
    """Measured limits."""

    bytes_per_s: float
    flops_per_s: float


@dataclasses.dataclass(frozen=True)
class Work:
    """What one step has to move and to compute."""

    weight_bytes: int
    kv_bytes: int
    flops: int

    def memory_s(self, machine: Machine) -> float:
        return (self.weight_bytes + self.kv_bytes) / machine.bytes_per_s

    def compute_s(self, machine: Machine) -> float:
        return self.flops / machine.flops_per_s


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of size `x` to measure: `run` runs it once."""

    x: int
    work: Work
    run: Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Point:
    """A step of size `x` took `step_s`, the least of its repeats."""

    x: int
    step_s: float
    work: Work

    def floor_s(self, machine: Machine) -> float:
        return max(self.work.memory_s(machine), self.work.compute_s(machine))

    def times_serial(self, machine: Machine) -> float:
        """The step's time over that of its memory and compute one after the other."""
        return self.step_s / (self.work.memory_s(machine) + self.work.compute_s(machine))


def decoding_work(model: ModelConfig, dtype: torch.dtype, batch: int, context: int) -> Work:
    """A step of `batch` sequences, one token each, over `context` tokens each; embedding rows count for nothing."""
    heads, width = model.heads + 2 * model.kv_heads, model.head_dim
    layer = model.hidden_size * (heads * width + model.heads * width + 3 * model.intermediate_size)
    weights = model.layers * layer + model.vocab_size * model.hidden_size
    kv = model.layers * batch * context * 2 * model.kv_heads * width
    attention = model.layers * batch * context * 4 * model.heads * width
    return Work(weights * dtype.itemsize, kv * dtype.itemsize, 2 * batch * weights + attention)


def measured_machine() -> Machine:
    """The best of a few reads of a large array, and of a few square products, in fp32 or where that is faster in bf16."""
    array = torch.ones(READ_BYTES // 4)
    types = {torch.float32} | ({torch.bfloat16} if torch.ops.mkldnn._is_mkldnn_bf16_supported() else set())
    return Machine(
        bytes_per_s=READ_BYTES / _least_s(array.sum),
        flops_per_s=max(2 * PRODUCT_SIZE**3 / _least_s(_product(each)) for each in types),
    )


def _product(dtype: torch.dtype) -> Callable[[], object]:
    left, right = (torch.randn(PRODUCT_SIZE, PRODUCT_SIZE).to(dtype) for _ in range(2))
    return lambda: left @ right


def _least_s(run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(PROBES):
        started_s = time.perf_counter()
        run()
        times.append(time.perf_counter() - started_s)
    return min(times)


def verdict(name: str, points: Sequence[Point], machine: Machine) -> str:
    """By how much, at most, the curve outgrew its floor from a smaller size to a larger one, and whether that is too much."""
    growth, small, large = max(
        (
            (later.times_serial(machine) / earlier.times_serial(machine), earlier.x, later.x)
            for index, later in enumerate(points)
            for earlier in points[:index]
        ),
        key=lambda found: found[0],
        default=(1.0, points[0].x, points[0].x),
    )
    where = f"from {small:,} to {large:,} a step's time grows {growth:.2f} × as much as its floor's parts"
    if growth > TOLERANCE:
        return f"{name}: GROWS FASTER than its floor explains: {where} (more than {TOLERANCE:g})"
    return f"{name}: grows no faster than its floor explains: at worst, {where}"
