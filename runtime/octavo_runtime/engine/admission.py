"""Whether a request may enter: what could never be served is refused at once, with the arithmetic."""

import dataclasses
import math

import msgspec

from octavo_runtime.engine.request import NARROW_FACTOR, beam_offers, width
from octavo_runtime.engine.selective import LEAST_PAGES, KvBudget, least_tokens
from octavo_runtime.messages import MOST_LENGTH_PENALTY, AddRequest, ErrorInfo, Sampling


@dataclasses.dataclass(frozen=True)
class Limits:
    """What the engine can hold. Tokens count prompt and output together."""

    max_model_len: int
    pool_pages: int  # and below it, for a sequence that runs alone, `overflow_pages`
    page_size: int
    vocab_size: int
    max_num_seqs: int
    max_queued: int
    max_queued_tokens: int | None = None
    kv_budget_tokens: int | None = None  # what a sequence may hold of its history, unless its request wants less
    kv_budget_refused: str | None = None  # why no request may want a budget
    overflow_pages: int = 0


@dataclasses.dataclass(frozen=True)
class Queued:
    """What waits already, and what the memory ladder asks for. Prompt tokens count once for each sequence of a request, each beam
    too."""

    sequences: int
    prompt_tokens: int
    retry_after_s: int  # when the queue will have worked off enough
    pressure: str = ""  # the ladder's level with its arithmetic
    refuses: bool = False  # whatever comes
    length_cap: int | None = None  # tokens, prompt and output together


def kv_budget(request: AddRequest, limits: Limits, narrow: bool = False) -> KvBudget | None:
    """What each of its sequences may hold; None where that is all, or would never be less. Beams hold their whole history."""
    wanted = [tokens for tokens in (request.kv_budget_tokens, limits.kv_budget_tokens) if tokens is not None]
    if not wanted or request.beam is not None:
        return None
    budget = KvBudget.of_tokens(min(wanted), limits.page_size * (NARROW_FACTOR if narrow else 1))
    longest = limits.max_model_len
    if request.max_tokens is not None:
        longest = min(longest, len(request.prompt_ids) + request.max_tokens)
    return None if longest <= budget.tokens else budget


def refusal(request: AddRequest, limits: Limits, queued: Queued) -> ErrorInfo | None:
    """Why `request` is refused, or None."""
    return (
        _unsupported(request)
        or _invalid(request, limits)
        or _invalid_sampling(request.sampling)
        or _invalid_budget(request, limits)
        or _too_wide(request, limits)
        or _never_fits(request, limits)
        or _pressured(request, queued)
        or _queue_full(request, limits, queued)
    )


def capped(request: AddRequest, length_cap: int | None) -> AddRequest:
    """The request with no more output than leaves it within `length_cap` tokens."""
    if length_cap is None:
        return request
    most = max(1, length_cap - len(request.prompt_ids))
    if request.max_tokens is not None and request.max_tokens <= most:
        return request
    return msgspec.structs.replace(request, max_tokens=most)


def _unsupported(request: AddRequest) -> ErrorInfo | None:
    wanted = {
        "kind": request.kind != "generate",
        "logprobs": request.logprobs is not None,
        "prompt_logprobs": request.prompt_logprobs is not None,
        "adapter": request.adapter is not None,
        "grammar": request.grammar is not None,
    }
    for field, asked in wanted.items():
        if asked:
            return ErrorInfo("unsupported", f"'{field}' is not supported by this engine yet: leave it out", field)
    return None


def _invalid(request: AddRequest, limits: Limits) -> ErrorInfo | None:
    if not request.prompt_ids:
        return ErrorInfo("unsupported", "the prompt is empty: give at least one token", "prompt")
    if request.deadline_s is not None and not request.deadline_s > 0:
        return ErrorInfo("unsupported", f"'deadline_s' is {request.deadline_s}: give more than 0 seconds", "deadline_s")
    penalty = request.beam.length_penalty if request.beam else 1.0
    if not abs(penalty) <= MOST_LENGTH_PENALTY:
        text = f"'length_penalty' is {penalty}: give a number from -{MOST_LENGTH_PENALTY:g} to {MOST_LENGTH_PENALTY:g}"
        return ErrorInfo("unsupported", text, "length_penalty")
    ids = {"prompt": request.prompt_ids, "stop_token_ids": request.stop_ids, "eos_ids": request.eos_ids}
    for field, tokens in ids.items():
        outside = next((token for token in tokens if not 0 <= token < limits.vocab_size), None)
        if outside is not None:
            text = f"token id {outside} in '{field}' is outside the vocabulary of {limits.vocab_size} (0 … {limits.vocab_size - 1})"
            return ErrorInfo("unsupported", text, field)
    return None


def _invalid_sampling(sampling: Sampling) -> ErrorInfo | None:
    """The server's schema refuses these of a request before; a caller in this process may give anything."""
    wrong = {
        "temperature": (not 0 <= sampling.temperature < math.inf, "0 or more"),
        "top_p": (not 0 < sampling.top_p <= 1, "more than 0, at most 1"),
        "top_k": (sampling.top_k < 0, "0 or more"),
        "min_p": (not 0 <= sampling.min_p <= 1, "0 to 1"),
    }
    for field, (is_wrong, remedy) in wrong.items():
        if is_wrong:
            return ErrorInfo("unsupported", f"'{field}' is {getattr(sampling, field)}: give {remedy}", field)
    return None


def _invalid_budget(request: AddRequest, limits: Limits) -> ErrorInfo | None:
    field, tokens, least = "kv_budget_tokens", request.kv_budget_tokens, least_tokens(limits.page_size)
    if tokens is None:
        return None
    text = None
    if limits.kv_budget_refused is not None:
        text = f"'{field}': {limits.kv_budget_refused}: leave it out"
    elif request.beam is not None:
        text = f"'{field}' is not for a beam search, which holds its whole history: leave one of the two out"
    elif tokens < least:
        text = (
            f"'{field}' is {tokens}, less than {LEAST_PAGES} blocks of {limits.page_size} tokens: give at least {least}"
        )
    return None if text is None else ErrorInfo("unsupported", text, field)


def _too_wide(request: AddRequest, limits: Limits) -> ErrorInfo | None:
    """All sequences of a request run at once when its prompt is computed."""
    field, wanted = "beam_width" if request.beam else "n", width(request)
    if not 1 <= wanted <= limits.max_num_seqs:
        text = f"'{field}' is {wanted}, from 1 to {limits.max_num_seqs} sequences can run at once (--max-num-seqs): change it"
        return ErrorInfo("unsupported", text, field)
    if request.n > wanted:
        return ErrorInfo("unsupported", f"'n' {request.n} is more than the {wanted} beams: lower it", "n")
    offers = beam_offers(request)
    if request.beam and offers > limits.vocab_size:
        text = (
            f"'{field}' {wanted} needs {offers} tokens to choose from, the vocabulary has {limits.vocab_size}: lower it"
        )
        return ErrorInfo("unsupported", text, field)
    return None


def _never_fits(request: AddRequest, limits: Limits) -> ErrorInfo | None:
    prompt = len(request.prompt_ids)
    if prompt >= limits.max_model_len:
        text = (
            f"the prompt has {prompt:,} tokens; with at least one generated it exceeds the context of "
            f"{limits.max_model_len:,} tokens: shorten the prompt"
        )
        return ErrorInfo("never_fits", text, "prompt")
    output = min(request.max_tokens or 1, limits.max_model_len - prompt)
    needed = -(-(prompt + output) // limits.page_size)
    budget = kv_budget(request, limits)
    if budget is not None:
        needed = min(needed, budget.pages)
    most = limits.pool_pages + limits.overflow_pages
    if needed > most:
        text = (
            f"needs {needed:,} blocks ({prompt:,} prompt + {output:,} output tokens, {limits.page_size} a block), "
            f"pool has {most:,}: shorten the prompt{' or lower max_tokens' if output > 1 else ''}"
        )
        return ErrorInfo("never_fits", text, "max_tokens" if output > 1 else "prompt")
    return None


def _pressured(request: AddRequest, queued: Queued) -> ErrorInfo | None:
    """It would fit later: the same again then."""
    again = f"try again in {queued.retry_after_s} s"
    if queued.refuses:
        text = f"memory pressure, {queued.pressure}: {again}"
        return ErrorInfo("pressured", text, retry_after_s=queued.retry_after_s)
    prompt, cap = len(request.prompt_ids), queued.length_cap
    if cap is not None and prompt >= cap:
        text = (
            f"the prompt has {prompt:,} tokens, and for the time being a request may have {cap:,} with its output (memory "
            f"pressure, {queued.pressure}): {again}"
        )
        return ErrorInfo("pressured", text, "prompt", queued.retry_after_s)
    return None


def _queue_full(request: AddRequest, limits: Limits, queued: Queued) -> ErrorInfo | None:
    if queued.sequences >= limits.max_queued:
        text = (
            f"the queue is full with {queued.sequences:,} of at most {limits.max_queued:,} requests (--max-num-queued-reqs): "
            f"try again in {queued.retry_after_s} s"
        )
        return ErrorInfo("queue_full", text, retry_after_s=queued.retry_after_s)
    tokens = len(request.prompt_ids) * width(request)
    most = limits.max_queued_tokens
    # A prompt that alone is over the limit is let into an empty queue: it would never get in otherwise.
    if most is not None and queued.sequences and queued.prompt_tokens + tokens > most:
        text = (
            f"{queued.prompt_tokens:,} prompt tokens wait already and this request has {tokens:,}, the limit is {most:,} "
            f"(--max-num-queued-tokens): try again in {queued.retry_after_s} s"
        )
        return ErrorInfo("queue_full", text, retry_after_s=queued.retry_after_s)
    return None
