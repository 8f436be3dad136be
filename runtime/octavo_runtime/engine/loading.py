"""From a configuration to a model on its device with its KV pages: everything behind `auto` is settled here."""

import dataclasses
import logging
from collections.abc import Callable

import torch

from octavo_kernels.kv_form import KvForm
from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine import cpu_model
from octavo_runtime.engine.devices import device_of
from octavo_runtime.engine.kv_forms import check_dense_type, kv_forms
from octavo_runtime.engine.memory import available_bytes, usable_cpus
from octavo_runtime.engine.ranks.membership import Ranks
from octavo_runtime.engine.ranks.placement import Placement
from octavo_runtime.engine.reservation import DEFAULT_KV_BYTES, Reservation, reserve_early
from octavo_runtime.model.attention import AttentionBackend, AttentionShape
from octavo_runtime.model.compute import Compute
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.device_weights import DeviceCheckpoint
from octavo_runtime.model.invariance import is_batch_invariant
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.packed_weights import WeightsCache
from octavo_runtime.model.parallel_compute import ParallelCompute
from octavo_runtime.model.sharded_weights import ShardedCheckpoint
from octavo_runtime.model.sharding import Shard
from octavo_runtime.model.weights import Checkpoint, WeightReader, open_checkpoint

log = logging.getLogger("octavo.engine")

_DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
_CPU_BLOCK_SIZE = 32
_GPU_BLOCK_SIZE = 16


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model ready to run, with the values that were settled for it."""

    decoder: Decoder
    backend: AttentionBackend
    pool: KvPool
    device: torch.device
    dtype: torch.dtype
    block_size: int
    max_model_len: int
    fingerprint: bytes  # of the model's files, 32 bytes
    forms: tuple[KvForm, ...]  # of KV pages: the service's own, then what the memory ladder may give new requests


def load(
    config: ServeConfig,
    progress: Callable[[int], None],
    reserved: Reservation | None = None,
    ranks: Ranks | None = None,
) -> LoadedModel:
    """Load `config.model`; `progress` is told the percentage of weights read; `reserved`: memory for KV that was begun before;
    `ranks`: which of several this process is, whose part alone is loaded.

    Raises ModelError for what is wrong with the model's files and ConfigError for flags that this machine or model cannot honour.
    """
    device = ranks.device if ranks is not None else device_of(config, Placement(1), 0)
    torch.set_num_threads(_threads(ranks))
    checkpoint = open_checkpoint(config.model_path)
    if ranks is not None:
        checkpoint = ShardedCheckpoint(checkpoint, Shard(ranks.rank, ranks.placement.size))
    if device.type == "cuda":
        if reserved is not None:
            reserved.release()
        torch.cuda.set_device(device)
        return _load_on_gpu(config, DeviceCheckpoint(checkpoint, device), ranks, device, progress)
    return _load_on_cpu(config, checkpoint, ranks, progress, reserved or reserve_early(config))


def _threads(ranks: Ranks | None) -> int:
    """The ranks of a node share its CPUs."""
    return max(1, usable_cpus() // _sharing(ranks))


def _sharing(ranks: Ranks | None) -> int:
    """How many ranks this node has."""
    return len(ranks.placement.ranks_here) if ranks is not None else 1


def _spanning(compute: Compute, ranks: Ranks | None) -> Compute:
    return compute if ranks is None else ParallelCompute(compute, ranks.collectives)


def _load_on_cpu(
    config: ServeConfig,
    checkpoint: Checkpoint,
    ranks: Ranks | None,
    progress: Callable[[int], None],
    reserved: Reservation | None,
) -> LoadedModel:
    device = torch.device("cpu")
    forms = kv_forms(config, _CPU_BLOCK_SIZE)
    block_size = forms[0].page_size
    model, max_model_len = checkpoint.config, _context(config, checkpoint.config)
    cpu = cpu_model.choose(config, model, block_size, _threads(ranks))
    cache = WeightsCache(config.weights_folder, checkpoint, lambda: progress(0))
    compute = _spanning(cpu.computing(cache), ranks)
    with torch.inference_mode():
        decoder = Decoder(model, WeightReader(checkpoint, cpu.dtype, progress), max_model_len, device, compute)
    cache.keep()
    check_dense_type(config, cpu.dtype)
    backend = cpu.backend(AttentionShape(model.heads, model.kv_heads, model.head_dim, block_size, cpu.dtype, forms))
    below = (config.kv_overflow_memory or 0) // (model.layers * backend.page_bytes) if ranks is None else 0
    pages, reserved = _pages_on_cpu(config, model.layers * backend.page_bytes, _sharing(ranks), reserved, below)
    if ranks is not None:
        pages = ranks.agree(pages)
    _check_context_fits(config, max_model_len, pages + below, block_size)
    zeros = reserved.take if ranks is None else ranks.kv_memory(reserved)
    pool = KvPool(model.layers, pages, backend.page_bytes, device, zeros, below)
    if config.batch_invariant and not is_batch_invariant(decoder, backend, pool, block_size, max_model_len):
        raise ConfigError(
            f"--batch-invariant: on this machine, with torch {torch.__version__}, a token's logits differ between alone and in "
            "company even in fixed tiles: leave the flag out"
        )
    return LoadedModel(
        *(decoder, backend, pool, device, cpu.dtype, block_size, max_model_len, checkpoint.fingerprint(), forms)
    )


def _load_on_gpu(
    config: ServeConfig,
    checkpoint: DeviceCheckpoint,
    ranks: Ranks | None,
    device: torch.device,
    progress: Callable[[int], None],
) -> LoadedModel:
    # These import Triton, which a start on a CPU does not wait for.
    from octavo_runtime.engine import gpu_model
    from octavo_runtime.model.triton_compute import TritonCompute

    gpu_model.check_device(device)
    dtype = _DTYPES["bfloat16" if config.dtype == "auto" else config.dtype]
    form, *_ = kv_forms(config, _GPU_BLOCK_SIZE)  # one: every launch of a step is of one format
    check_dense_type(config, dtype)
    block_size = form.page_size
    model, max_model_len = checkpoint.config, _context(config, checkpoint.config)
    compute = _spanning(TritonCompute(), ranks)
    with torch.inference_mode():
        decoder = Decoder(model, WeightReader(checkpoint, dtype, progress), max_model_len, device, compute)
    limits = gpu_model.step_limits(config, block_size, max_model_len)
    shape = AttentionShape(model.heads, model.kv_heads, model.head_dim, block_size, dtype, (form,))
    backend = gpu_model.new_backend(shape, limits, device)
    if ranks is not None:
        ranks.agree(0)  # the steps that measure are taken together, and one may load for much longer than another
    collectives = ranks.collectives if ranks is not None else None
    percent = config.gpu_memory_percent
    spare = gpu_model.measured_spare_bytes(decoder, backend, limits, device, progress, percent, collectives)
    below = (config.kv_overflow_memory or 0) // (model.layers * backend.page_bytes)
    scratch_layers = 1 if below else 0  # of all pages, those below the pool too: `overflow.py`
    spare -= scratch_layers * below * backend.page_bytes
    pages = _pages(config, (model.layers + scratch_layers) * backend.page_bytes, spare, spare)
    if ranks is not None:
        pages = ranks.agree(pages)
    _check_context_fits(config, max_model_len, pages + below, block_size)
    pool = KvPool(model.layers, pages, backend.page_bytes, device)
    return LoadedModel(
        *(decoder, backend, pool, device, dtype, block_size, max_model_len, checkpoint.fingerprint(), (form,))
    )


def _context(config: ServeConfig, model: ModelConfig) -> int:
    if config.max_model_len is not None and config.max_model_len > model.max_position:
        raise ConfigError(
            f"--max-model-len {config.max_model_len} is more than the model's {model.max_position} positions: lower it"
        )
    return config.max_model_len or model.max_position


def _check_context_fits(config: ServeConfig, max_model_len: int, pages: int, block_size: int) -> None:
    """A context that was asked for must fit the pages; of the model's own, requests that do not fit are refused one by one."""
    needed = -(-max_model_len // block_size)
    if needed <= pages:
        return
    if config.max_model_len is not None:
        raise ConfigError(
            f"--max-model-len {max_model_len} needs {needed:,} KV pages of {block_size} tokens, the memory for KV holds "
            f"{pages:,}: raise --kv-cache-memory or lower --max-model-len"
        )
    log.warning(
        "the model's context of %d tokens needs %d KV pages, the memory for KV holds %d: requests of more than %d tokens are "
        "refused; raise --kv-cache-memory or set --max-model-len",
        max_model_len,
        needed,
        pages,
        pages * block_size,
    )


def _pages_on_cpu(
    config: ServeConfig, bytes_of_all_layers: int, sharing: int, reserved: Reservation | None, below: int
) -> tuple[int, Reservation]:
    """How many pages, and the memory for them and those below, where so many ranks share what there is. What was reserved before
    the weights were read counts as available."""
    if reserved is not None:
        reserved.wait()
    available = available_bytes() + (reserved.size_bytes if reserved is not None else 0)
    left = available - below * bytes_of_all_layers
    if left <= 0:
        raise ConfigError(
            f"--kv-overflow-memory {config.kv_overflow_memory:,} bytes are more than the {available:,} available here: lower it"
        )
    pages = _pages(config, sharing * bytes_of_all_layers, left, min(DEFAULT_KV_BYTES, left // 2))
    needed = (pages + 1 + below) * bytes_of_all_layers
    if reserved is not None and needed > reserved.size_bytes:
        reserved.release()
        reserved = None
    return pages, reserved or Reservation(needed)


def _pages(config: ServeConfig, bytes_of_all_layers: int, available: int, default: int) -> int:
    """How many pages the memory for KV holds, besides the sink page: what was asked for or `default`, of `available` bytes."""
    asked = config.kv_cache_memory
    budget = asked if asked is not None else default
    if asked is not None and asked > available:
        raise ConfigError(f"--kv-cache-memory {asked:,} bytes are more than the {available:,} available here: lower it")
    pages = budget // bytes_of_all_layers - 1
    if pages < 1:
        raise ConfigError(
            f"--kv-cache-memory: {budget:,} bytes hold no KV page ({bytes_of_all_layers:,} bytes over all layers, and one "
            f"page is a sink): give at least {2 * bytes_of_all_layers:,}"
        )
    return pages
