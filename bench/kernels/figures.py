"""From a time to the figures of a row: what was achieved, and its share of the limit that binds."""

import dataclasses

from bench.kernels.kernel_case import KernelCase


@dataclasses.dataclass(frozen=True)
class Limits:
    """Measured in the same run: memory bandwidth in bytes a second, matrix products in operations a second."""

    bandwidth: float
    peak: float


@dataclasses.dataclass(frozen=True)
class Figures:
    name: str
    time_us: float
    gb_s: float
    tflop_s: float
    bound: str  # "memory" or "compute": which limit takes longer
    fraction: float  # of that limit


def figures(case: KernelCase, time_s: float, limits: Limits) -> Figures:
    memory_s, compute_s = case.bytes / limits.bandwidth, case.flops / limits.peak
    return Figures(
        case.name,
        time_s * 1e6,
        case.bytes / time_s / 1e9,
        case.flops / time_s / 1e12,
        "memory" if memory_s >= compute_s else "compute",
        max(memory_s, compute_s) / time_s,
    )


def table(rows: list[Figures]) -> str:
    width = max(len(row.name) for row in rows)
    head = f"{'kernel':<{width}} {'µs':>9} {'GB/s':>7} {'TFLOP/s':>8} {'bound':>8} {'of limit':>9}"
    return "\n".join([head, *(_line(row, width) for row in rows)])


def _line(row: Figures, width: int) -> str:
    return f"{row.name:<{width}} {row.time_us:>9.1f} {row.gb_s:>7.0f} {row.tflop_s:>8.1f} {row.bound:>8} {row.fraction:>9.1%}"
