"""What crosses the border between the API process and the engine process.

MessagePack over a ZeroMQ ROUTER (engine) / DEALER (API) pair on a Unix domain socket. The API process sends `AddRequest`, `Abort`
and `Call`; the engine answers with one `StepOutputs` a step (never a message a token) and one `Reply` for each `Call`.

The engine ends a sequence on token ids and lengths; the API process ends it on stop strings, drops what was generated past one
and sends `Abort`. Fields of features that the engine does not have yet are refused by the engine with an `ErrorInfo` that names
the field, so that the border stays the same when they arrive.
"""

from typing import Literal

import msgspec

FinishReason = Literal["stop", "length", "abort", "error"]
StopReason = int | Literal["deadline"] | None  # the stop id that ended it; None for EOS; deadline: with "abort"
RequestKind = Literal["generate", "embed"]


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the next token is drawn. `temperature` 0 is greedy; `top_p` 1 and `top_k` 0 are off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def restricts(self) -> bool:
        """Whether only the likeliest tokens may be drawn."""
        return self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0


class GrammarSpec(msgspec.Struct, frozen=True):
    """A grammar that the output must follow, active once the token id `active_after` was generated (at once when None)."""

    kind: Literal["json_schema", "regex", "ebnf"]
    source: str
    active_after: int | None = None


# The memory ladder's levels, from 1 on.
LADDER = ("strict_admission", "demote", "slow_intake", "preempt_ahead", "cap_length", "lossy", "refuse")
MOST_LENGTH_PENALTY = 10.0  # either way: powers of a text's length must stay numbers


class BeamSearch(msgspec.Struct, frozen=True):
    """Keep the `width` likeliest continuations; finished ones rank by log-probability / tokens ** `length_penalty`."""

    width: int
    length_penalty: float = 1.0


class AddRequest(msgspec.Struct, frozen=True, tag="add", omit_defaults=True):
    """One request: `n` sequences that share a prompt. Sequence i draws with `seed + i`.

    `max_tokens` None means: until the context is full. `eos_ids` and `stop_ids` end the sequence from `min_tokens` on; the
    ending id is part of the output ids, and a stop id is also the `stop_reason`. Lower `priority` comes first. `deadline_s` is
    counted from arrival at the engine: what waits then is refused, what runs ends with what it has. With `beam`, the `n` best
    beams come at the end, each in one output. `tenant_salt` keeps apart the prefix caches of those who must not see each other's
    timing.
    """

    id: str
    prompt_ids: list[int]
    sampling: Sampling
    seed: int  # 0 … 2**64 - 1
    kind: RequestKind = "generate"
    n: int = 1
    beam: BeamSearch | None = None
    eos_ids: list[int] = []
    stop_ids: list[int] = []
    max_tokens: int | None = None
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    adapter: str | None = None
    tenant_salt: bytes = b""
    priority: int = 0
    deadline_s: float | None = None
    grammar: GrammarSpec | None = None
    kv_budget_tokens: int | None = None
    kv_transfer: None = None
    embeds: None = None


class Abort(msgspec.Struct, frozen=True, tag="abort", omit_defaults=True):
    """End these requests, and of others these sequences (id, index); their pages return once no submitted step reads them.

    What is not known (any more) is ignored. A request all of whose sequences were ended is over.
    """

    ids: list[str]
    sequences: list[tuple[str, int]] = []


class Call(msgspec.Struct, frozen=True, tag="call"):
    """A question that is not a request to generate, such as `info`; answered by the `Reply` with the same id."""

    id: int
    method: Literal["info"]
    args: list[int | str] = []


class EngineInfo(msgspec.Struct, frozen=True):
    """What the engine came up with once it is ready: the effective values behind `auto`."""

    model: str
    dtype: str
    device: str
    max_model_len: int  # tokens, prompt and output together
    block_size: int  # tokens a page
    num_blocks: int  # usable pages (the sink page is not counted)
    max_num_seqs: int
    max_num_batched_tokens: int
    kv_cache_bytes: int
    attention_backend: str
    vocab_size: int
    prefix_caching: bool
    chunked_prefill: bool
    batch_invariant: bool
    scheduler_delay_ms: float
    model_context: int = 0  # tokens, the model's own: --max-model-len may allow less
    kv_cache_dtype: str = ""  # what keys and values are kept as, "/" between them where they differ
    compute: str = ""  # what multiplies: "cpu-<tier>" (our kernels), "torch" (slow on a CPU), "triton"


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """The answer to a `Call`: a result or an error text."""

    id: int
    result: EngineInfo | None = None
    error: str | None = None


ErrorKind = Literal["never_fits", "queue_full", "pressured", "unsupported", "deadline", "failed"]


class ErrorInfo(msgspec.Struct, frozen=True):
    """Why the engine refused or gave up a request.

    `never_fits`: no pool state would admit it (HTTP 400). `queue_full`: try again after `retry_after_s` (503).
    `pressured`: the memory ladder refuses it for now (503). `unsupported`: a field this engine cannot honour (400).
    `deadline`: it was still waiting at its deadline (504). `failed`: the engine broke (500).
    """

    kind: ErrorKind
    message: str
    param: str | None = None
    retry_after_s: int | None = None


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one step gave one sequence (`index` of its request)."""

    id: str
    token_ids: list[int] = []
    index: int = 0
    finish_reason: FinishReason | None = None
    stop_reason: StopReason = None
    cached_tokens: int = 0  # prompt tokens that were not computed again; told once, with the first output
    logprobs: None = None
    degraded: list[str] = []  # with a first and a last output: what a shortage of memory did to it
    error: ErrorInfo | None = None


class TierStats(msgspec.Struct, frozen=True):
    """One tier below the pool: what it holds, and its totals since the start, in blocks and bytes."""

    tier: str  # "memory" or "disk"
    blocks: int
    bytes: int
    hits_total: int = 0  # blocks brought back whole
    written_bytes_total: int = 0
    read_bytes_total: int = 0
    dropped_total: int = 0  # blocks lost for want of room, in the tier or its queue, or because a write failed
    corrupt_total: int = 0  # blocks found torn or changed: dropped, and computed again


class Stats(msgspec.Struct, frozen=True):
    """The engine's counts after a step. Gauges show the newest; counters add up the `step_*` fields and the totals' differences.

    `running` and `waiting` count sequences: a request with n = 3 waits as one and runs as three.
    """

    running: int
    waiting: int
    blocks_total: int
    blocks_used: int  # referenced by live requests
    blocks_cached: int  # not referenced, still findable
    slots_filled: int  # tokens held in referenced pages
    batch_size: int  # sequences in this step (0 when nothing ran)
    step_tokens: int  # tokens computed in this step
    step_prompt_tokens: int  # of these, prompt tokens computed for the first time
    step_generated_tokens: int
    busy_s_total: float  # time with a step in flight since start
    preemptions_total: int
    max_num_seqs: int = 0  # sequences that may run at once now: the automatic value is halved while prompts are long
    prefix_queries_tokens_total: int = 0  # prompt tokens that were looked up in the prefix cache
    prefix_hits_tokens_total: int = 0  # of these, found
    page_copies_total: int = 0  # copies on write
    predicted_peak_blocks: int = 0  # of the running sequences
    predicted_deficit_blocks: int = 0  # what running and waiting sequences are predicted to lack at their peak
    step_forecast_ratios: list[float] = []  # output length / its forecast, of the sequences that ended in this step
    tiers: list[TierStats] = []  # below the pool, the fastest first
    tier_hits_tokens_total: int = 0  # tokens whose keys and values came from a tier
    swapped_total: int = 0  # preempted sequences that left nothing to compute again
    pressure_level: int = 0  # of the memory ladder
    degradations_total: list[int] = []  # how often each level of `LADDER` was climbed to
    preempted_ahead_total: int = 0  # of the preemptions, those before pages lacked
    capped_total: int = 0  # requests whose length the ladder capped
    guard_compared_total: int = 0  # tokens of requests in 8 bits, compared with the full KV format
    guard_same_total: int = 0  # of these, those that it gives too
    max_num_batched_tokens: int = 0  # tokens that a step may have now: halved when memory for one cannot be had
    failed_steps_total: int = 0  # steps that were rolled back for that
    evicted_tokens_total: int = 0  # of histories, to stay within budgets
    late_compilations_total: int = 0  # kernels compiled, or shapes met first, after warm-up


class StepOutputs(msgspec.Struct, frozen=True, tag="outputs"):
    """All that a step gave. Also sent with no outputs when an abort changed the counts without a step."""

    step: int
    outputs: list[Output]
    stats: Stats


ToEngine = AddRequest | Abort | Call
FromEngine = StepOutputs | Reply

encoder = msgspec.msgpack.Encoder()
to_engine_decoder: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)
from_engine_decoder: msgspec.msgpack.Decoder[FromEngine] = msgspec.msgpack.Decoder(FromEngine)
