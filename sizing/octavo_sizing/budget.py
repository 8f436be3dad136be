"""What a GPU's or a pod's memory goes to, and what is left for KV pages: the arithmetic of `octavo serve` with its measured parts
replaced by estimates.

On a GPU the runtime measures what its largest steps ask for and what is free; here both are computed. On CPUs it sees its cgroup.
Estimates stand beside the constants; the operator compares predicted blocks with those that pods report.
"""

import dataclasses

from octavo_sizing.amounts import bytes_text
from octavo_sizing.kv_cache import layer_block_bytes, overflow_blocks
from octavo_sizing.model import Model
from octavo_sizing.setup import DEFAULT_CPU_KV_BYTES, Setup
from octavo_sizing.weights import rotary_bytes, weights_bytes, workspace_bytes

# What a process has on a GPU before any tensor: the driver's context, kernels and the libraries' own buffers. An estimate.
_GPU_PROCESS_BYTES = 1 << 30
# What a rank of several has besides: NCCL's channels. An estimate.
_COLLECTIVES_BYTES = 512 << 20
# Kept free beside the percentage, for recorded graphs; a step's tensors do not fill the blocks of torch's cache. Both as
# `engine/device_memory.py` has them.
GPU_RESERVE_BYTES, GPU_RESERVE_SHARE = 1 << 30, 0.02
FRAGMENTS = 1.25

# The API's process, and the engine's with torch in it, when the engine counts what is left for KV. Measured: docs/sizing.md.
_API_PROCESS_BYTES = 70 << 20
_RANK_PROCESS_BYTES = 316 << 20
_RANK_OF_SEVERAL_BYTES = 136 << 20  # more in each, where several compute together
# A rank on a GPU has the driver's mappings and pinned staging in the node's memory. An estimate.
_GPU_RANK_HOST_BYTES = 3 << 30


@dataclasses.dataclass(frozen=True)
class Part:
    """What takes `size_bytes`, in words."""

    text: str
    size_bytes: int


@dataclasses.dataclass(frozen=True)
class Budget:
    """`usable_bytes` of memory (None: not known, or no limit) of which `parts` are taken."""

    parts: tuple[Part, ...]
    usable_bytes: int | None = None
    usable_text: str = ""

    @property
    def taken_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)

    @property
    def left_bytes(self) -> int | None:
        """For KV pages; negative where there is not even room for the rest."""
        return None if self.usable_bytes is None else self.usable_bytes - self.taken_bytes


def budget(model: Model, setup: Setup, context_tokens: int) -> Budget:
    """Where positions up to `context_tokens` are asked for."""
    return (_on_gpu if setup.device == "gpu" else _on_cpu)(model, setup, context_tokens)


def kv_bytes(setup: Setup, found: Budget) -> int | None:
    """The memory for KV pages as the runtime chooses it; None where the memory is not known and decides."""
    left = found.left_bytes
    if setup.kv_bytes is not None:
        return setup.kv_bytes if left is None or setup.kv_bytes <= left else max(0, left)
    if setup.device == "gpu":
        return None if left is None else max(0, left)
    return DEFAULT_CPU_KV_BYTES if left is None else max(0, min(DEFAULT_CPU_KV_BYTES, left // 2))


def kv_most_bytes(setup: Setup) -> int | None:
    """What the pool of KV pages never exceeds, however much memory there is; None where memory alone decides."""
    if setup.kv_bytes is not None:
        return setup.kv_bytes
    return DEFAULT_CPU_KV_BYTES if setup.device == "cpu" else None


def memory_for(setup: Setup, needed_bytes: int) -> int:
    """The memory of a GPU, or the limit of a pod, of which `needed_bytes` may be used."""
    if setup.device == "cpu":
        return needed_bytes
    by_share = needed_bytes * 100 / min(setup.memory_percent, 100 - 100 * GPU_RESERVE_SHARE)
    return int(max(by_share, needed_bytes + GPU_RESERVE_BYTES))


def host_bytes(setup: Setup) -> int:
    """The memory limit of a pod whose ranks compute on GPUs: an estimate."""
    ranks = setup.tensor // setup.nodes
    pages = setup.tier_bytes + setup.overflow_bytes
    return _API_PROCESS_BYTES + ranks * (_RANK_PROCESS_BYTES + _GPU_RANK_HOST_BYTES) + pages


def _on_gpu(model: Model, setup: Setup, context_tokens: int) -> Budget:
    process = _GPU_PROCESS_BYTES + (_COLLECTIVES_BYTES if setup.tensor > 1 else 0)
    workspace = Part("workspace of a step", int(FRAGMENTS * workspace_bytes(model, setup)))
    # The pool's part of that layer is in the size of its blocks.
    scratch_bytes = overflow_blocks(model, setup) * layer_block_bytes(model, setup)
    below = (Part("overflow's layer", scratch_bytes),) if setup.overflow_bytes else ()
    parts = (*_of_model(model, setup, context_tokens), Part("CUDA and its libraries", process), workspace, *below)
    memory = setup.memory_bytes
    if memory is None:
        return Budget(parts)
    share = memory * setup.memory_percent // 100
    unreserved = memory - max(GPU_RESERVE_BYTES, int(GPU_RESERVE_SHARE * memory))
    if share <= unreserved:
        return Budget(parts, share, f"{setup.memory_percent} % of {bytes_text(memory)}")
    return Budget(parts, unreserved, f"{bytes_text(memory)} − reserve {bytes_text(memory - unreserved)}")


def _on_cpu(model: Model, setup: Setup, context_tokens: int) -> Budget:
    of_rank = _RANK_PROCESS_BYTES + (_RANK_OF_SEVERAL_BYTES if setup.tensor > 1 else 0)
    processes = _API_PROCESS_BYTES + setup.sharing * of_rank
    parts = [*_of_model(model, setup, context_tokens), Part("processes", processes)]
    if setup.kv_bytes is not None:  # an automatic pool leaves half of the rest, of which steps take theirs
        parts.append(Part("workspace of a step", setup.sharing * workspace_bytes(model, setup)))
    if setup.tier_bytes:
        parts.append(Part("memory tier", setup.tier_bytes))
    if setup.overflow_bytes:
        parts.append(Part("KV overflow", setup.overflow_bytes))
    limit = setup.memory_bytes
    return Budget(tuple(parts), limit, "" if limit is None else f"limit {bytes_text(limit)}")


def _of_model(model: Model, setup: Setup, context_tokens: int) -> tuple[Part, Part]:
    return (
        Part("weights", setup.sharing * weights_bytes(model, setup)),
        Part("rotary tables", setup.sharing * rotary_bytes(model, context_tokens)),
    )
