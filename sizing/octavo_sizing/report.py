"""A `Fit` in words: the arithmetic, and a verdict that names what would help."""

import dataclasses
import math

from octavo_sizing.amounts import at_least_text, bytes_text, tokens_text
from octavo_sizing.budget import kv_most_bytes
from octavo_sizing.fit import Fit

_ARITHMETIC_LENGTH = 1024  # of the status's field


@dataclasses.dataclass(frozen=True)
class Words:
    """What the reader calls the settings: fields of an InferenceService, or flags."""

    tensor: str
    memory: str
    context: str
    kv_memory: str
    process: str  # what has the memory on CPUs


FIELDS = Words(
    tensor="spec.parallelism.tensor",
    memory="spec.gpu.memory",
    context="spec.runtime.maxModelLen",
    kv_memory="spec.runtime.kvCache.memory",
    process="the pod",
)
CPU_FIELDS = dataclasses.replace(FIELDS, memory="spec.resources.memory")
FLAGS = Words(
    tensor="--tensor",
    memory="--gpu-memory",
    context="--max-model-len",
    kv_memory="--kv-cache-memory",
    process="the process",
)
CPU_FLAGS = dataclasses.replace(FLAGS, memory="--memory")


def arithmetic(fit: Fit) -> str:
    """From memory to blocks, each number with its name."""
    taken = [f"{part.text} {bytes_text(part.size_bytes)}" for part in fit.budget.parts]
    of_block = f"{fit.setup.block_size} tokens of {bytes_text(fit.kv_token_bytes)}"
    if fit.blocks is None or fit.kv_bytes is None:
        return f"{' + '.join(taken)} = {bytes_text(fit.budget.taken_bytes)}; a KV block is {of_block}"
    left = fit.budget.left_bytes
    if left is None:
        begin = f"{' + '.join(taken)} = {bytes_text(fit.budget.taken_bytes)} beside {bytes_text(fit.kv_bytes)} for KV"
    else:
        begin = " − ".join([f"{fit.budget.usable_text} = {bytes_text(fit.budget.usable_bytes or 0)}", *taken])
        begin += f" = {bytes_text(left)}" + ("" if fit.kv_bytes == max(0, left) else f", KV {bytes_text(fit.kv_bytes)}")
    return f"{begin}: {fit.blocks:,} blocks of {of_block} hold {tokens_text(fit.concurrent_tokens or 0)}"


def verdict(fit: Fit, words: Words) -> str:
    """One sentence and what would help."""
    if fit.fits is None:
        return f"whether it fits is not known: {words.memory} is not set; at least {bytes_text(fit.needed_bytes)} are needed"
    own = fit.setup.max_model_len is None
    if not fit.fits:
        return f"does not fit: {_need(fit, words)}; {'; or '.join(_remedies(fit, words))}"
    assert fit.largest_context_tokens is not None
    if own and fit.largest_context_tokens < fit.context_tokens:
        more = _exceeds_pool(fit, fit.kv_context_bytes)
        kv = f" and {words.kv_memory} of at least {at_least_text(fit.kv_context_bytes)}" if more else ""
        return (
            f"fits, with contexts of at most {tokens_text(fit.largest_context_tokens)} of the model's "
            f"{fit.context_tokens:,}, for which it takes {bytes_text(fit.context_bytes)}{kv}"
        )
    return f"fits, with contexts of {tokens_text(fit.context_tokens)}"


def fields(fit: Fit) -> dict[str, int | str]:
    """As JSON and the status have it; what is not known is left out."""
    found = {
        "weightsBytes": fit.weights_bytes,
        "kvBytesPerToken": fit.kv_token_bytes,
        "blocks": fit.blocks,
        "maxConcurrentTokens": fit.concurrent_tokens,
        "largestContextTokens": fit.largest_context_tokens,
        "perGpuBytes": fit.context_bytes,
        "smallestTensor": fit.smallest_tensor,
        "arithmetic": arithmetic(fit)[:_ARITHMETIC_LENGTH],
    }
    return {name: value for name, value in found.items() if value is not None}


def _need(fit: Fit, words: Words) -> str:
    if _short_of_kv_memory_alone(fit):
        asked = fit.setup.max_model_len
        what = "the least of KV pages takes" if asked is None else f"a context of {tokens_text(asked)} takes"
        return f"{what} {at_least_text(fit.kv_needed_bytes)} of memory for KV, and {_kv_most_text(fit)}"
    whose = "each GPU" if fit.setup.device == "gpu" else words.process
    asked_text = "" if fit.setup.max_model_len is None else f" for a context of {tokens_text(fit.context_tokens)}"
    has = "" if fit.setup.memory_bytes is None else f", and there are {bytes_text(fit.setup.memory_bytes)}"
    return f"at tensor degree {fit.setup.tensor} {whose} needs {bytes_text(fit.needed_bytes)}{asked_text}{has}"


def _remedies(fit: Fit, words: Words) -> list[str]:
    setup, found = fit.setup, []
    raised = f"set {words.kv_memory} to at least {at_least_text(fit.kv_needed_bytes)}"
    if _short_of_kv_memory_alone(fit):
        found.append(raised)
    elif fit.smallest_tensor is not None and setup.device == "gpu":
        found.append(f"set {words.tensor} to {fit.smallest_tensor} (the smallest that fits) or more")
    elif setup.device == "gpu" and _exceeds_pool(fit, fit.kv_needed_bytes):
        found.append(f"use GPUs of at least {at_least_text(fit.needed_bytes)} and {raised}")
    elif setup.device == "gpu":
        found.append("no tensor degree makes it fit: use GPUs with more memory")
    else:
        also = f" and {raised}" if _exceeds_pool(fit, fit.kv_needed_bytes) else ""
        found.append(f"set {words.memory} to at least {at_least_text(fit.needed_bytes)}{also}")
    largest = fit.largest_context_tokens or 0
    if setup.max_model_len is not None and largest > 0:
        found.append(f"set {words.context} to at most {largest:,} (the largest that fits)")
    left = fit.budget.left_bytes
    if setup.kv_bytes is not None and left is not None and setup.kv_bytes > left >= fit.kv_needed_bytes:
        found.append(f"lower {words.kv_memory} to at most {bytes_text(left, math.floor)}")
    return found


def _exceeds_pool(fit: Fit, kv_bytes: int) -> bool:
    """Whether no memory of a GPU or pod makes the pool so large: it is asked for to be smaller, or an automatic one of a CPU."""
    most = kv_most_bytes(fit.setup)
    return most is not None and kv_bytes > most


def _short_of_kv_memory_alone(fit: Fit) -> bool:
    room = fit.kv_room_bytes
    return _exceeds_pool(fit, fit.kv_needed_bytes) and (room is None or room >= fit.kv_needed_bytes)


def _kv_most_text(fit: Fit) -> str:
    most = bytes_text(kv_most_bytes(fit.setup) or 0)
    return f"an automatic pool takes at most {most}" if fit.setup.kv_bytes is None else f"{most} are asked for"
