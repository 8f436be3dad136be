"""Every flag of `octavo serve`, once: name, type, default, help text. `cli.py` builds its parser from this table, the engine
process gets it as JSON, and the operator's flags are compared with it by `tests/contract`.

Each flag is also an environment variable: `--max-num-seqs` is `OCTAVO_MAX_NUM_SEQS`; the flag wins.
"""

import dataclasses
import itertools
from dataclasses import Field
from pathlib import Path
from typing import Any

from octavo_runtime.contradictions import contradictions
from octavo_runtime.flag_table import environment_name as environment_name
from octavo_runtime.flag_table import flag_fields, option, wrong_values
from octavo_runtime.flag_table import flag_name as flag_name
from octavo_runtime.flag_values import ConfigError as ConfigError
from octavo_runtime.flag_values import (
    parse_bytes,
    parse_count,
    parse_milliseconds,
    parse_percent,
    parse_port,
    parse_positive,
    parse_seconds,
    parse_switch,
    parse_warmup_sequences,
)
from octavo_runtime.source.reference import hub_reference, local_path
from octavo_sizing.setup import DEFAULT_GPU_MEMORY_PERCENT

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", "bfloat16", "float32")
DEFAULT_MAX_NUM_SEQS = 64
DEFAULT_KV_TIER_DISK_BYTES = 16 << 30
LONG_PROMPT_TOKENS = 8192  # while most prompts are longer, the automatic max_num_seqs is halved
KV_CACHE_DTYPES = ("auto", "bfloat16", "int8", "fp8")
NO_CACHE = "none"  # of --weights-cache
BLOCK_SIZES = ("auto", "16", "32", "64", "128")


@dataclasses.dataclass(frozen=True)
class ServeConfig:
    """The configuration of one runtime. Values named `auto` or None are settled by the engine, which reports them in `/state`."""

    model: str
    fetched: str | None = None  # no flag: where the files of a hub's model lie on this machine, once they do
    revision: str | None = None  # no flag: the commit that those are
    served_model_name: str | None = option(None, "name that clients give as `model` (default: the file or folder name)")
    model_cache: str | None = option(
        None,
        "folder that models of hf:// are downloaded into and found again, whoever shares it (default: octavo/models in the user's "
        "cache folder)",
    )
    hub_token_file: str | None = option(
        None, "file with the token for models of hf:// that need one (default: what HF_TOKEN holds)"
    )
    host: str = option("0.0.0.0", "address that the API and the health port listen on")
    port: int = option(8000, "port of the API", parse_port)
    health_port: int = option(8001, "port of health, state and metrics, which no request can block", parse_port)
    run_dir: str | None = option(
        None, "folder for sockets and shared memory (default: /run/octavo if writable, else a new one)"
    )
    drain_timeout: float = option(60.0, "seconds that requests in flight get to finish after SIGTERM", parse_seconds)
    drain_settle: float = option(
        0.0,
        "seconds after SIGTERM during which new requests are still answered (endpoints need them to settle)",
        parse_seconds,
    )
    device: str = option("auto", "where the model runs", choices=DEVICES)
    dtype: str = option(
        "auto",
        "type of weights and KV cache; auto: bfloat16 on GPUs and with the CPU kernels (AVX2 or better)",
        choices=DTYPES,
    )
    tensor_parallel_size: int = option(1, "number of GPUs (or CPU ranks) that share the model", parse_positive)
    nodes: int | None = option(
        None, "number of nodes that share the ranks (default: LWS_GROUP_SIZE, without it 1)", parse_positive
    )
    node_rank: int | None = option(
        None, "this node's number; node 0 serves, the others follow it (default: LWS_WORKER_INDEX)", parse_count
    )
    rendezvous: str | None = option(None, "name or address of node 0 (default: LWS_LEADER_ADDRESS)")
    block_size: str = option(
        "auto",
        "tokens in a KV page; auto: 16 on GPUs, 32 on CPUs, twice that with an 8-bit KV cache",
        choices=BLOCK_SIZES,
    )
    kv_cache_dtype: str = option(
        "auto",
        "what keys and values are kept as; auto: the model's type; int8 and fp8 (e4m3): 8 bits, a scale for each token and head, "
        "twice the tokens in the same memory (GPUs: one type for both)",
        choices=KV_CACHE_DTYPES,
    )
    kv_cache_dtype_v: str = option(
        "auto", "what values alone are kept as; auto: as --kv-cache-dtype says", choices=KV_CACHE_DTYPES
    )
    weights_cache: str | None = option(
        None,
        "folder for weights as the CPU kernels take them, which later starts map instead of packing; none: keep none (default: "
        "octavo/weights in the user's cache folder, none in a container)",
    )
    kv_cache_memory: int | None = option(
        None,
        "memory for KV pages, such as 2Gi: of each GPU, or of all CPU ranks of a node together (default: what the machine or "
        "cgroup leaves, at most 2Gi on a CPU)",
        parse_bytes,
    )
    gpu_memory_percent: int = option(
        DEFAULT_GPU_MEMORY_PERCENT,
        "most of a GPU's memory, in percent, that weights, workspace and KV pages take together",
        parse_percent,
    )
    max_model_len: int | None = option(
        None, "longest prompt and output together, in tokens (default: the model's)", parse_positive
    )
    max_num_seqs: int | None = option(
        None,
        f"most sequences in one step (default: {DEFAULT_MAX_NUM_SEQS}, and half of it while most prompts are longer than "
        f"{LONG_PROMPT_TOKENS} tokens)",
        parse_positive,
    )
    max_num_batched_tokens: int = option(
        512, "most tokens in one step, decodes first, prefill in chunks", parse_positive
    )
    prefill_percent: int = option(
        50, "most of a step's tokens, in percent, that prompts get while other sequences decode", parse_percent
    )
    chunked_prefill: bool = option(
        True,
        "compute long prompts in several steps, beside decodes (without: --max-num-batched-tokens must be at least the context)",
        parse_switch,
    )
    kv_budget_tokens: int | None = option(
        None,
        "most tokens that a sequence holds keys and values of; beyond, those that got least attention are evicted, which changes "
        "answers (default: all are held)",
        parse_positive,
    )
    prefix_caching: bool = option(True, "keep pages of finished requests for prompts that begin alike", parse_switch)
    kv_overflow_memory: int | None = option(
        None,
        "memory below the KV pool for the early pages of a request that is longer than the pool, which then runs alone and slower, "
        "such as 2Gi (with one rank; default: none)",
        parse_bytes,
    )
    kv_tier_memory: int | None = option(
        None,
        "memory that keeps KV pages which the pool reuses, such as 4Gi, reserved at the start (default: none)",
        parse_bytes,
    )
    kv_tier_disk: str | None = option(
        None, "folder that keeps KV pages on disk, also over a restart; one runtime at a time (default: none)"
    )
    kv_tier_disk_size: int | None = option(
        None,
        f"most that --kv-tier-disk may hold, oldest deleted first (default: {DEFAULT_KV_TIER_DISK_BYTES >> 30}Gi)",
        parse_bytes,
    )
    scheduler_delay_ms: float = option(
        0.0, "milliseconds that an idle engine waits for more requests before the first step", parse_milliseconds
    )
    max_num_queued_reqs: int = option(1024, "most requests waiting before new ones get 503", parse_positive)
    max_num_queued_tokens: int | None = option(
        None, "most prompt tokens waiting before new requests get 503 (default: no limit)", parse_positive
    )
    batch_invariant: bool = option(
        False,
        "compute logits that do not depend on what else is in the batch (CPU only; the CPU kernels do so anyhow, "
        "without them steps take 1.5 to 3 times as long: `octavo bench batch_invariant`)",
        parse_switch,
    )
    memory_ladder: bool = option(
        True,
        "answer a shortage of KV pages step by step: stricter admission, smaller chunks, early preemption, capped lengths, "
        "refusals with Retry-After",
        parse_switch,
    )
    allow_lossy: bool = option(
        False,
        "let the memory ladder lower precision where nothing else helps: new requests keep keys and values in 8 bits",
        parse_switch,
    )
    kv_guard_percent: int | None = option(
        None,
        "of greedy requests that --allow-lossy has kept in 8 bits, how many in a hundred are compared with the full KV format "
        "(default: none)",
        parse_percent,
    )
    kv_guard_limit: int = option(
        90,
        "percent of the compared tokens that must be the same, or no more requests are kept in 8 bits",
        parse_percent,
    )
    audit: bool = option(
        False, "check the KV cache's books while serving; an error in them ends the engine", parse_switch
    )
    warmup_sequences: int = option(
        8, "sequences that hold KV pages and run before readiness, from 5 to 10", parse_warmup_sequences
    )
    warmup_manifest: str | None = option(
        None,
        "file of the shapes that traffic met: run at start, most frequent first, and kept up where it can be written",
    )
    warmup_max_seconds: float = option(
        60.0, "seconds after which warm-up leaves out the shapes that are left", parse_seconds
    )
    tenant_header: str | None = option(
        None, "header that names the tenant; tenants do not share cached prefixes (default: one tenant)"
    )
    tenant_secret_file: str | None = option(
        None, "file with the secret that keys tenants' and clients' cache salts (default: a random one at each start)"
    )

    api_key_file: str | None = option(
        None,
        "file with the keys that clients must give as `Authorization: Bearer`, one a line, read again when it changes; health and "
        "metrics need none (default: nobody needs one)",
    )

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        for text in itertools.chain(wrong_values(self), contradictions(self)):
            raise ConfigError(text)

    @property
    def model_path(self) -> Path:
        """The model's file or folder. Raises ConfigError for a hub's model that was not fetched, as only `octavo serve` does."""
        if self.fetched is None and hub_reference(self.model) is not None:
            raise ConfigError(
                f"the model {self.model} is not on this machine: give the path of a GGUF file or a model folder"
            )
        return Path(self.fetched) if self.fetched is not None else local_path(self.model)

    @property
    def wanted_num_seqs(self) -> int:
        """`max_num_seqs`, or what stands in for it; no more run than there are blocks."""
        return self.max_num_seqs or min(DEFAULT_MAX_NUM_SEQS, self.max_num_batched_tokens)

    @property
    def weights_folder(self) -> Path | None:
        """Where packed weights are kept; None: nowhere."""
        return None if self.weights_cache is None or self.weights_cache == NO_CACHE else Path(self.weights_cache)

    @property
    def model_name(self) -> str:
        """The name that clients use."""
        reference = hub_reference(self.model)
        named = reference.name if reference is not None else self.model_path.name.removesuffix(".gguf")
        return self.served_model_name or named or self.model


def flags() -> list["Field[Any]"]:
    """The fields that are flags, in the order of the table (`model` is the argument; what was fetched is none)."""
    return flag_fields(ServeConfig)
