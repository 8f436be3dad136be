"""What a model runs with on a GPU. Imports Triton, which a start on a CPU does not wait for: import it for a GPU only."""

import logging
from collections.abc import Callable
from typing import Any

import torch
import triton

from octavo_runtime.config import DEFAULT_MAX_NUM_SEQS, ConfigError, ServeConfig
from octavo_runtime.engine.cuda_graphs import batch_sizes
from octavo_runtime.engine.device_memory import spare_bytes
from octavo_runtime.engine.device_runner import DeviceRunner, RunnerLimits
from octavo_runtime.engine.device_stream import CudaStream
from octavo_runtime.engine.early_pages import MOST_TOKENS, EarlyPages
from octavo_runtime.engine.ranks.device_runner import RankDeviceRunner
from octavo_runtime.engine.tiers.device_mover import DeviceMover
from octavo_runtime.model.attention import AttentionBackend, AttentionShape
from octavo_runtime.model.collectives import Collectives
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.overflow import Overflow
from octavo_runtime.model.triton_attention import TritonBackend
from octavo_runtime.model.triton_sampler import triton_sample

log = logging.getLogger("octavo.engine")

_OLDEST = (8, 0)  # the first with bf16 in its matrix units


def check_device(device: torch.device) -> None:
    """Raises ConfigError for a GPU that the kernels are not made for."""
    found = torch.cuda.get_device_capability(device)
    if torch.version.hip is None and found < _OLDEST:
        name = torch.cuda.get_device_name(device)
        raise ConfigError(
            f"--device cuda: {name} has compute capability {found[0]}.{found[1]}, the kernels need "
            f"{_OLDEST[0]}.{_OLDEST[1]} or newer; use --device cpu"
        )


def step_limits(config: ServeConfig, page_size: int, max_model_len: int) -> RunnerLimits:
    """What steps can be at most: the engine runs fewer sequences where the pool is small."""
    sequences = config.max_num_seqs or min(DEFAULT_MAX_NUM_SEQS, config.max_num_batched_tokens)
    return RunnerLimits(page_size, sequences, max_model_len, config.max_num_batched_tokens)


def new_backend(shape: AttentionShape, limits: RunnerLimits, device: torch.device) -> TritonBackend:
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return TritonBackend(shape, batch_sizes(limits.max_num_seqs)[-1], processors, device)


def new_runner(
    decoder: Decoder,
    backend: AttentionBackend,
    pool: KvPool,
    limits: RunnerLimits,
    ranks: Collectives | None = None,
    overflow: Overflow | None = None,
) -> DeviceRunner:
    """`ranks`: those that share the model; there is no overflow then."""
    stream = CudaStream(pool.layers[0].device)
    parts = decoder, backend, pool, triton_sample, stream, limits
    if ranks is not None:
        return RankDeviceRunner(*parts, ranks)
    if overflow is None:
        return DeviceRunner(*parts)
    assert isinstance(backend, TritonBackend)
    most_tokens = min(limits.max_num_batched_tokens, MOST_TOKENS)
    return DeviceRunner(*parts, EarlyPages(overflow, backend, pool, backend.shape, stream, most_tokens))


def new_page_mover(pool: KvPool, runner: DeviceRunner) -> DeviceMover:
    return DeviceMover(pool, runner.stream, CudaStream(runner.stream.device))


def measured_spare_bytes(
    decoder: Decoder,
    backend: AttentionBackend,
    limits: RunnerLimits,
    device: torch.device,
    progress: Callable[[int], None],
    percent: int,
    ranks: Collectives | None = None,
) -> int:
    """Run the largest steps on a pool of one page, and see what of `percent` of the GPU's memory they leave for a real one."""
    pool = KvPool(decoder.config.layers, 1, backend.page_bytes, device)
    runner = new_runner(decoder, backend, pool, limits, ranks)
    before_bytes = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    for _ in runner.rehearse():
        progress(100)  # weights are read; this says that it goes on
    workspace_bytes = torch.cuda.max_memory_allocated(device) - before_bytes
    del runner, pool
    torch.cuda.empty_cache()
    free_bytes, total_bytes = torch.cuda.mem_get_info(device)
    return spare_bytes(free_bytes, total_bytes, workspace_bytes, percent)


def report_compiles(met: Callable[[str], None]) -> None:
    """From here on, tell what is compiled or loaded: warm-up should have met it, and a step waits for it."""

    def report(*, repr: str, **ignored: Any) -> None:  # Triton's names
        met(repr)

    triton.knobs.runtime.jit_post_compile_hook = report
