"""The tiers and the overflow that a configuration asks for, around a pool that is there."""

from collections.abc import Callable
from pathlib import Path

from octavo_runtime.config import DEFAULT_KV_TIER_DISK_BYTES, ConfigError, ServeConfig
from octavo_runtime.engine.memory import available_bytes
from octavo_runtime.engine.prefix_index import CacheIdentity, root_key
from octavo_runtime.engine.tiers.block_file import BlockKind
from octavo_runtime.engine.tiers.chain import TierChain
from octavo_runtime.engine.tiers.disk_store import DiskStore
from octavo_runtime.engine.tiers.disk_tier import WRITES_WAITING_MOST
from octavo_runtime.engine.tiers.page_mover import PageMover
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.overflow import Overflow, PagesBelow

_BUFFER_BLOCKS = 2 * WRITES_WAITING_MOST  # of a disk tier without a memory tier: on their way to the disk


def open_tiers(config: ServeConfig, identity: CacheIdentity, new_mover: Callable[[], PageMover]) -> TierChain | None:
    """None where no tier is asked for. Raises ConfigError for memory that is not there and a folder that cannot be had."""
    if config.kv_tier_memory is None and config.kv_tier_disk is None:
        return None
    mover = new_mover()
    kind = BlockKind(_root(identity), mover.block_bytes)
    rows = _rows(config, mover.block_bytes)
    if config.kv_tier_disk is None:
        return TierChain(mover, kind, rows)
    limit_bytes = config.kv_tier_disk_size or DEFAULT_KV_TIER_DISK_BYTES
    if limit_bytes < kind.file_bytes:
        raise ConfigError(
            f"--kv-tier-disk-size: {limit_bytes:,} bytes hold no block of {kind.file_bytes:,} bytes: raise it"
        )
    return TierChain(mover, kind, rows, DiskStore(Path(config.kv_tier_disk), limit_bytes, kind))


def open_overflow(config: ServeConfig, pool: KvPool) -> Overflow | PagesBelow | None:
    """None where none is asked for. Raises ConfigError."""
    asked, available = config.kv_overflow_memory, available_bytes()
    if asked is None:
        return None
    if config.tensor_parallel_size > 1:
        raise ConfigError(
            f"--kv-overflow-memory: this version has it with one rank only, not with --tensor-parallel-size "
            f"{config.tensor_parallel_size}: leave it out"
        )
    page_bytes = pool.total_bytes // (pool.pages + 1)
    pages = asked // page_bytes
    if pages < 1:
        raise ConfigError(f"--kv-overflow-memory: {asked:,} bytes hold no page of {page_bytes:,}: raise it")
    if pool.layers[0].device.type == "cpu":
        return PagesBelow(pool)
    if asked > available:
        raise ConfigError(
            f"--kv-overflow-memory {asked:,} bytes are more than the {available:,} available here: lower it"
        )
    return Overflow(pool, pages)


def _root(identity: CacheIdentity) -> bytes:
    return root_key(identity, None, b"")


def _rows(config: ServeConfig, block_bytes: int) -> int:
    asked, available = config.kv_tier_memory, available_bytes()
    wanted = _BUFFER_BLOCKS * block_bytes if asked is None else asked
    if wanted > available:
        flag = "--kv-tier-disk needs a buffer of" if asked is None else "--kv-tier-memory"
        raise ConfigError(
            f"{flag} {wanted:,} bytes, more than the {available:,} available here: lower it or leave it out"
        )
    if wanted < block_bytes:
        raise ConfigError(f"--kv-tier-memory: {wanted:,} bytes hold no block of {block_bytes:,} bytes: raise it")
    return wanted // block_bytes
