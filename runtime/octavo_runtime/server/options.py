"""A request's options and prompt as the engine's `AddRequest`: defaults, clamps and the limits that need the model. Pure."""

import dataclasses
from typing import Literal

from octavo_runtime.messages import AddRequest, Sampling
from octavo_runtime.server.choices import beam_search, check_samples
from octavo_runtime.server.errors import BadRequestError
from octavo_runtime.server.schema import Options

GREEDY_BELOW = 1e-5
LEAST_TEMPERATURE = 0.01  # below it, logits divided by the temperature lose the order of close tokens
COMPLETION_DEFAULT_TOKENS = 16


@dataclasses.dataclass(frozen=True)
class ModelLimits:
    """What the engine came up with, and what the model's author set. `model_context`: the model's own, of which `max_model_len`
    tokens are served."""

    max_model_len: int
    model_context: int
    max_num_seqs: int
    vocab_size: int
    eos_ids: tuple[int, ...]
    sampling_defaults: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Origin:
    """What a request has that its body does not say: its name here, a seed for clients that give none, its tenant's salt."""

    id: str
    fresh_seed: int
    tenant_salt: bytes = b""


def add_request(
    origin: Origin, options: Options, prompt_ids: list[int], limits: ModelLimits, default_tokens: int | None
) -> AddRequest:
    """`default_tokens` None fills the context. Raises BadRequestError."""
    limit = _output_limit(options, len(prompt_ids), limits, default_tokens)
    check_ids(options.stop_token_ids or [], limits.vocab_size, "stop_token_ids")
    beam = beam_search(options, limits.max_num_seqs)
    sampling = Sampling(temperature=0.0) if beam else _sampling(options, limits.sampling_defaults)
    if beam is None:
        check_samples(options, limits.max_num_seqs, sampling.greedy)
    return AddRequest(
        id=origin.id,
        prompt_ids=prompt_ids,
        sampling=sampling,
        seed=origin.fresh_seed if options.seed in (None, -1) else int(options.seed or 0) % 2**64,
        n=options.choices,
        beam=beam,
        eos_ids=[] if options.ignore_eos else list(limits.eos_ids),
        stop_ids=options.stop_token_ids or [],
        max_tokens=limit,
        min_tokens=options.min_tokens,
        tenant_salt=origin.tenant_salt,
        priority=options.priority or 0,
        deadline_s=options.deadline_s,
        kv_budget_tokens=options.kv_budget_tokens,
    )


def check_prompt_length(
    tokens: int, options: Options, max_model_len: int, part: str, counted: Literal["exactly", "at least"] = "exactly"
) -> None:
    """The prompt and one more token must fit into the context. `part` is what the client calls the prompt."""
    if tokens < max_model_len:
        return
    wanted = options.output_limit() or 1
    least = "at least " if counted == "at least" else ""
    raise BadRequestError(
        f"This model's maximum context length is {max_model_len} tokens. "
        f"However, you requested {least}{tokens + wanted} tokens "
        f"({least}{tokens} in the {part}, {wanted} in the completion). Please reduce the length of the {part} or completion.",
        param=part,
        code="context_length_exceeded",
    )


def check_ids(ids: list[int], vocab_size: int, param: str) -> None:
    wrong = next((one for one in ids if not 0 <= one < vocab_size), None)
    if wrong is not None:
        raise BadRequestError(f"{param}: {wrong} is not a token id of this model (0 to {vocab_size - 1})", param=param)


def _output_limit(options: Options, prompt_tokens: int, limits: ModelLimits, default_tokens: int | None) -> int | None:
    """The client's limit, cut to what the context leaves. More than a whole context is taken for a mistake."""
    explicit = options.output_limit()
    if explicit is not None and explicit > limits.max_model_len:
        raise BadRequestError(_too_long(options.output_limit_name, explicit, limits), param=options.output_limit_name)
    room = limits.max_model_len - prompt_tokens
    limit = explicit if explicit is not None else default_tokens
    most = room if limit is None else min(limit, room)
    if options.min_tokens > most:
        other = f"raise {options.output_limit_name}" if most < room else "shorten the prompt"
        raise BadRequestError(
            f"min_tokens {options.min_tokens} is more than the {most} tokens that may be generated: lower it to at most {most}, "
            f"or {other}",
            param="min_tokens",
        )
    return None if limit is None else most


def _too_long(name: str, asked: int, limits: ModelLimits) -> str:
    most = limits.max_model_len
    if most < limits.model_context:
        whose = f"the context of {most} tokens that --max-model-len sets; the model's own has {limits.model_context}"
        return f"{name} {asked} is more than {whose}: give at most {most}, or serve with a larger --max-model-len"
    return f"{name} {asked} is more than the model's own context of {most} tokens: give at most {most}"


def _sampling(options: Options, defaults: dict[str, float]) -> Sampling:
    temperature = _chosen(options.temperature, defaults.get("temperature"), 1.0)
    if temperature < GREEDY_BELOW:
        return Sampling(temperature=0.0)
    return Sampling(
        temperature=max(temperature, LEAST_TEMPERATURE),
        top_p=_chosen(options.top_p, defaults.get("top_p"), 1.0),
        top_k=max(0, int(_chosen(options.top_k, defaults.get("top_k"), 0))),
        min_p=_chosen(options.min_p, defaults.get("min_p"), 0.0),
    )


def _chosen(given: float | None, authors: float | None, otherwise: float) -> float:
    if given is not None:
        return given
    return authors if authors is not None else otherwise
