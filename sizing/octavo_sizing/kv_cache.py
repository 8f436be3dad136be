"""Bytes of KV pages. `octavo_kernels` decides what lies in a page (`kv_form.py`, `page_layout.py`); tests compare the two."""

from octavo_sizing.model import Model
from octavo_sizing.setup import DTYPE_BYTES, KvKind, Setup
from octavo_sizing.sharding import local_kv_heads

_SCALE_BYTES = 2  # fp16, of a token and head, of what has 8 bits
_GPU_ALIGNMENT_BYTES, _CPU_ALIGNMENT_BYTES = 16, 64
_SINK_PAGES = 1  # padding is written there


def block_bytes(model: Model, setup: Setup) -> int:
    """A page of all layers, of all ranks that share the memory which is counted.

    Beside an overflow a GPU has one layer more: where the pages of a sequence that is longer than the pool are brought together.
    """
    scratch_layers = 1 if setup.overflow_bytes and setup.device == "gpu" else 0
    return setup.sharing * (model.layers + scratch_layers) * layer_block_bytes(model, setup)


def overflow_blocks(model: Model, setup: Setup) -> int:
    """Pages below the pool."""
    return setup.overflow_bytes // (model.layers * layer_block_bytes(model, setup))


def layer_block_bytes(model: Model, setup: Setup) -> int:
    """A page of one layer of a rank."""
    tokens = setup.block_size
    needed = tokens * _slot_bytes(model, setup, setup.keys, setup.values)
    if setup.lossy and setup.device == "cpu" and setup.keys == setup.values == "dense":
        needed = max(needed, 2 * tokens * _slot_bytes(model, setup, "int8", "int8"))
    alignment = _GPU_ALIGNMENT_BYTES if setup.device == "gpu" else _CPU_ALIGNMENT_BYTES
    return -(-needed // alignment) * alignment


def token_bytes(model: Model, setup: Setup) -> int:
    """Of one token, rounded up, as `block_bytes` counts."""
    return -(-block_bytes(model, setup) // setup.block_size)


def blocks_in(kv_bytes: int, one_block_bytes: int) -> int:
    """Usable blocks of so much memory, the sink not counted; 0 where it holds none."""
    return max(0, kv_bytes // one_block_bytes - _SINK_PAGES)


def bytes_for(tokens: int, block_size: int, one_block_bytes: int) -> int:
    """The least memory whose blocks hold a sequence of `tokens`."""
    return (-(-tokens // block_size) + _SINK_PAGES) * one_block_bytes


def in_pool_tokens(tokens: int, block_size: int, overflow_blocks: int) -> int:
    """Of a sequence of `tokens`, those that the pool has to hold: all but what the overflow takes, and the page that is written."""
    return max(min(tokens, block_size), tokens - overflow_blocks * block_size)


def _slot_bytes(model: Model, setup: Setup, *kinds: KvKind) -> int:
    """Of one token's keys and values in one layer of a rank."""
    dense = model.head_dim * DTYPE_BYTES[setup.dtype]
    of_head = sum(dense if kind == "dense" else model.head_dim + _SCALE_BYTES for kind in kinds)
    return local_kv_heads(model, setup.tensor) * of_head
