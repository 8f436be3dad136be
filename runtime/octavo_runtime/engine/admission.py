"""Whether a request may enter: what could never be served is refused at once, with the arithmetic."""

import dataclasses

from octavo_runtime.messages import AddRequest, ErrorInfo


@dataclasses.dataclass(frozen=True)
class Limits:
    """What the engine can hold. Tokens count prompt and output together."""

    max_model_len: int
    pool_pages: int
    page_size: int
    vocab_size: int
    max_queued: int


def refusal(request: AddRequest, limits: Limits, queued: int) -> ErrorInfo | None:
    """Why `request` is refused, or None. `queued`: requests that wait already."""
    return (
        _unsupported(request)
        or _invalid(request, limits)
        or _never_fits(request, limits)
        or _queue_full(limits, queued)
    )


def _unsupported(request: AddRequest) -> ErrorInfo | None:
    wanted = {
        "kind": request.kind != "generate",
        "n": request.n != 1,
        "logprobs": request.logprobs is not None,
        "prompt_logprobs": request.prompt_logprobs is not None,
        "adapter": request.adapter is not None,
        "priority": request.priority != 0,
        "deadline_s": request.deadline_s is not None,
        "grammar": request.grammar is not None,
        "kv_budget_tokens": request.kv_budget_tokens is not None,
    }
    for field, asked in wanted.items():
        if asked:
            return ErrorInfo("unsupported", f"'{field}' is not supported by this engine yet: leave it out", field)
    return None


def _invalid(request: AddRequest, limits: Limits) -> ErrorInfo | None:
    if not request.prompt_ids:
        return ErrorInfo("unsupported", "the prompt is empty: give at least one token", "prompt")
    for field, ids in (("prompt", request.prompt_ids), ("stop_token_ids", request.stop_ids)):
        outside = next((token for token in ids if not 0 <= token < limits.vocab_size), None)
        if outside is not None:
            text = f"token id {outside} in '{field}' is outside the vocabulary of {limits.vocab_size} (0 … {limits.vocab_size - 1})"
            return ErrorInfo("unsupported", text, field)
    return None


def _never_fits(request: AddRequest, limits: Limits) -> ErrorInfo | None:
    prompt = len(request.prompt_ids)
    if prompt >= limits.max_model_len:
        text = (
            f"the prompt has {prompt} tokens; with at least one generated it exceeds the context of "
            f"{limits.max_model_len} tokens: shorten the prompt"
        )
        return ErrorInfo("never_fits", text, "prompt")
    output = min(request.max_tokens or 1, limits.max_model_len - prompt)
    needed = -(-(prompt + output) // limits.page_size)
    if needed > limits.pool_pages:
        text = (
            f"needs {needed:,} blocks ({prompt:,} prompt + {output:,} output tokens, {limits.page_size} a block), "
            f"pool has {limits.pool_pages:,}: shorten the prompt or lower max_tokens"
        )
        return ErrorInfo("never_fits", text, "max_tokens")
    return None


def _queue_full(limits: Limits, queued: int) -> ErrorInfo | None:
    if queued < limits.max_queued:
        return None
    text = f"{queued} requests wait already, the limit is {limits.max_queued} (--max-num-queued-reqs): try again later"
    return ErrorInfo("queue_full", text, retry_after_s=1)
