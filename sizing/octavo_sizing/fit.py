"""Whether a model fits, how many KV blocks there will be, and what would help: the whole answer as one value."""

import dataclasses

from octavo_sizing.budget import Budget, budget, kv_bytes, memory_for
from octavo_sizing.errors import ContextError, DegreeError, HeadWidthError, KvFormError
from octavo_sizing.kv_cache import block_bytes, blocks_in, bytes_for, in_pool_tokens, overflow_blocks, token_bytes
from octavo_sizing.model import Model
from octavo_sizing.setup import DEFAULT_CPU_KV_BYTES, WIDEST_GPU_HEAD, KvKind, Setup
from octavo_sizing.sharding import check_degree, possible_degrees
from octavo_sizing.weights import weights_bytes, workspace_bytes

# A context that was not asked for may be shorter than the model's own; the runtime starts with any that holds a page.
_LEAST_CONTEXT_TOKENS = 1


@dataclasses.dataclass(frozen=True)
class Fit:
    """Bytes and blocks are of each GPU, or of a pod on CPUs. `None` of what depends on memory that is not known.

    `context_tokens`: the longest sequence that is asked for, the model's own context where none is. `context_bytes`: the least
    memory of a GPU, or limit of a pod, that holds one such sequence; `needed_bytes`: the same of what is asked for, a context that
    is not being as short as may be. `kv_room_bytes`: the most that may be asked for as memory for KV. `largest_context_tokens`:
    what fits, at most the model's own, with `overflow_blocks` below the pool. `smallest_tensor`: the least degree at which what is
    asked for fits, None where none does.
    """

    fits: bool | None
    setup: Setup
    budget: Budget
    weights_bytes: int
    kv_token_bytes: int
    block_bytes: int
    context_tokens: int
    context_bytes: int
    needed_bytes: int
    kv_room_bytes: int | None = None
    kv_bytes: int | None = None
    blocks: int | None = None
    overflow_blocks: int = 0
    largest_context_tokens: int | None = None
    smallest_tensor: int | None = None

    @property
    def concurrent_tokens(self) -> int | None:
        """How many tokens of all sequences together have their keys and values in the pool."""
        return None if self.blocks is None else self.blocks * self.setup.block_size

    @property
    def kv_needed_bytes(self) -> int:
        """Memory for KV that holds what is asked for."""
        return self._kv_bytes_for(self.setup.max_model_len or _LEAST_CONTEXT_TOKENS)

    @property
    def kv_context_bytes(self) -> int:
        """Memory for KV that holds one sequence of `context_tokens`."""
        return self._kv_bytes_for(self.context_tokens)

    def _kv_bytes_for(self, tokens: int) -> int:
        in_pool = in_pool_tokens(tokens, self.setup.block_size, self.overflow_blocks)
        return bytes_for(in_pool, self.setup.block_size, self.block_bytes)


def degrees(model: Model, setup: Setup) -> list[int]:
    """The tensor degrees that the model can be shared by, with as many nodes and beside what goes with one rank only."""
    possible = [degree for degree in possible_degrees(model) if degree % setup.nodes == 0]
    return [degree for degree in possible if degree == 1] if setup.one_rank_only else possible


def fit(model: Model, setup: Setup, tensor_field: str, context_field: str) -> Fit:
    """Raises DegreeError where so many ranks cannot share the model, ContextError where it has fewer positions than are asked
    for, KvFormError where the device cannot keep KV so, HeadWidthError where it cannot compute so wide heads; `tensor_field` and
    `context_field` are what the caller calls the degree and the context."""
    check_degree(model, setup.tensor, tensor_field)
    if setup.tensor % setup.nodes:
        raise DegreeError(
            f"{tensor_field} {setup.tensor} is not shared evenly by {setup.nodes} nodes: give a multiple of {setup.nodes}",
            degrees(model, setup),
        )
    if (flags := setup.one_rank_only) is not None and setup.tensor > 1:
        where = "" if setup.overflow_bytes else " but on CPUs of one node"
        raise DegreeError(
            f"{flags} goes with one rank only{where}, not with {tensor_field} {setup.tensor}: leave it out, or set "
            f"{tensor_field} to 1",
            degrees(model, setup),
        )
    if setup.max_model_len is not None and setup.max_model_len > model.max_position:
        raise ContextError(
            f"{context_field} {setup.max_model_len:,} is more than the model's {model.max_position:,} positions: lower it to "
            f"{model.max_position:,}"
        )
    _check_kernels(model, setup)
    context = setup.max_model_len or model.max_position
    asked = setup.max_model_len or _LEAST_CONTEXT_TOKENS
    found, one_block = budget(model, setup, context), block_bytes(model, setup)
    answer = Fit(
        fits=None,
        setup=setup,
        budget=found,
        weights_bytes=setup.sharing * weights_bytes(model, setup),
        kv_token_bytes=token_bytes(model, setup),
        block_bytes=one_block,
        context_tokens=context,
        context_bytes=memory_for(setup, found.taken_bytes + _kv_needed(model, setup, context)),
        needed_bytes=memory_for(setup, found.taken_bytes + _kv_needed(model, setup, asked)),
        overflow_blocks=overflow_blocks(model, setup),
        kv_room_bytes=_kv_room(model, setup, found),
    )
    memory = kv_bytes(setup, found)
    if memory is None:
        return answer
    blocks = blocks_in(memory, one_block)
    known = found.left_bytes is not None
    return dataclasses.replace(
        answer,
        fits=_holds(model, setup),
        kv_bytes=memory,
        blocks=blocks,
        largest_context_tokens=_largest_context(model, setup, blocks),
        smallest_tensor=_smallest_degree(model, setup) if known else setup.tensor,
    )


def _check_kernels(model: Model, setup: Setup) -> None:
    """What those of GPUs do not take."""
    if setup.device != "gpu":
        return
    if model.head_dim > WIDEST_GPU_HEAD:
        raise HeadWidthError(
            f"the model's heads have {model.head_dim} elements, and the GPU's kernels take at most {WIDEST_GPU_HEAD}: serve it on "
            "CPUs"
        )
    if setup.keys != setup.values:
        raise KvFormError(
            f"{_kind_text(setup.keys)} keys and {_kind_text(setup.values)} values are not for GPUs, whose kernels have one type "
            "for both: leave --kv-cache-dtype-v out, or give it as --kv-cache-dtype says"
        )


def _kind_text(kind: KvKind) -> str:
    return "unquantized" if kind == "dense" else kind


def _kv_needed(model: Model, setup: Setup, context_tokens: int) -> int:
    """Bytes of KV that must be left: a CPU's automatic pool takes half of what there is, up to its cap; more must be asked for, and
    steps take theirs beside it."""
    in_pool = in_pool_tokens(context_tokens, setup.block_size, overflow_blocks(model, setup))
    needed = bytes_for(in_pool, setup.block_size, block_bytes(model, setup))
    if setup.kv_bytes is not None:
        return max(needed, setup.kv_bytes)
    if setup.device == "gpu":
        return needed
    return 2 * needed if needed <= DEFAULT_CPU_KV_BYTES else needed + setup.sharing * workspace_bytes(model, setup)


def _kv_room(model: Model, setup: Setup, found: Budget) -> int | None:
    left = found.left_bytes
    if left is None or setup.device == "gpu" or setup.kv_bytes is not None:
        return left
    return left - setup.sharing * workspace_bytes(model, setup)


def _holds(model: Model, setup: Setup, context_tokens: int | None = None) -> bool:
    """Whether the runtime would start and hold a sequence of so many tokens, or what is asked for."""
    asked = context_tokens or setup.max_model_len
    found = budget(model, setup, asked or model.max_position)
    left, memory = found.left_bytes, kv_bytes(setup, found)
    assert memory is not None
    if (left is not None and memory > left) or (setup.kv_bytes is not None and memory < setup.kv_bytes):
        return False
    blocks = blocks_in(memory, block_bytes(model, setup))
    if not blocks:
        return False
    return (blocks + overflow_blocks(model, setup)) * setup.block_size >= (asked or _LEAST_CONTEXT_TOKENS)


def _largest_context(model: Model, setup: Setup, blocks: int) -> int:
    """By bisection: a longer context takes more for its positions' tables, and never fits where a shorter one does not. Where none
    is asked for, the tables are those of the model's own."""
    if setup.max_model_len is None:
        below = overflow_blocks(model, setup) if blocks else 0
        return min(model.max_position, (blocks + below) * setup.block_size)
    fitting, failing = 0, model.max_position + 1
    while failing - fitting > 1:
        middle = (fitting + failing) // 2
        if _holds(model, setup, middle):
            fitting = middle
        else:
            failing = middle
    return fitting


def _smallest_degree(model: Model, setup: Setup) -> int | None:
    fitting = (one for one in degrees(model, setup) if _holds(model, dataclasses.replace(setup, tensor=one)))
    return next(fitting, None)
