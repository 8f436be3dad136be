"""How much memory to give a pod on CPUs that nobody gave any."""

from octavo_sizing.budget import budget
from octavo_sizing.kv_cache import block_bytes, bytes_for, in_pool_tokens, overflow_blocks
from octavo_sizing.model import Model
from octavo_sizing.setup import DEFAULT_CPU_KV_BYTES, Setup
from octavo_sizing.weights import workspace_bytes

_LEAST_KV_BYTES = 512 << 20
_STEP_BYTES = 64 << 20


def cpu_limit_bytes(model: Model, setup: Setup) -> int:
    """For weights, processes, a step, and KV pages: what is asked for, else one sequence of the longest context, at least 512 MiB
    and at most the 2 GiB that an automatic pool takes. Whole 64 MiB."""
    context = setup.max_model_len or model.max_position
    taken = budget(model, setup, context).taken_bytes
    if setup.kv_bytes is not None:
        return _whole(taken + setup.kv_bytes)
    in_pool = in_pool_tokens(context, setup.block_size, overflow_blocks(model, setup))
    one = bytes_for(in_pool, setup.block_size, block_bytes(model, setup))
    kv = min(DEFAULT_CPU_KV_BYTES, max(_LEAST_KV_BYTES, one))
    # An automatic pool takes half of what there is.
    return _whole(taken + setup.sharing * workspace_bytes(model, setup) + 2 * kv)


def _whole(size_bytes: int) -> int:
    return -(-size_bytes // _STEP_BYTES) * _STEP_BYTES
