"""Which values of `octavo serve`'s flags cannot be together, as far as the flags alone tell."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from octavo_runtime.source.reference import SourceError, check_source

if TYPE_CHECKING:
    from octavo_runtime.config import ServeConfig


def contradictions(config: "ServeConfig") -> Iterator[str]:
    """Each names the flags and the remedy."""
    try:
        check_source(config.model)
    except SourceError as error:
        yield str(error)
    if config.served_model_name is not None and not config.served_model_name.strip():
        yield "--served-model-name is empty: give a name or leave it out"
    if config.max_model_len is not None and config.max_model_len < 2:
        yield f"--max-model-len {config.max_model_len} is too short for a prompt and an answer: give at least 2"
    if config.port == config.health_port:
        yield f"--port and --health-port are both {config.port}: give them different ports"
    if config.max_num_batched_tokens < (config.max_num_seqs or 1):
        yield (
            f"--max-num-batched-tokens {config.max_num_batched_tokens} is less than --max-num-seqs {config.max_num_seqs}: "
            "every running sequence needs a token in a step"
        )
    yield from _of_tiers(config)
    yield from _of_the_ladder(config)
    if config.tenant_secret_file is not None and not Path(config.tenant_secret_file).is_file():
        yield f"--tenant-secret-file {config.tenant_secret_file} is not a file: give one that holds the secret"


def _of_tiers(config: "ServeConfig") -> Iterator[str]:
    if config.kv_tier_disk_size is not None and config.kv_tier_disk is None:
        yield "--kv-tier-disk-size bounds a folder that is not given: give --kv-tier-disk or leave it out"
    tiers = {"--kv-tier-memory": config.kv_tier_memory, "--kv-tier-disk": config.kv_tier_disk}
    given = next((flag for flag, value in tiers.items() if value is not None), None)
    if given is not None and not config.prefix_caching:
        yield f"{given} keeps pages to be found again, and --no-prefix-caching finds none: leave one of them out"


def _of_the_ladder(config: "ServeConfig") -> Iterator[str]:
    if config.allow_lossy and not config.memory_ladder:
        yield "--allow-lossy lets the memory ladder keep requests in 8 bits, and --no-memory-ladder turns it off: leave one out"
    if config.kv_guard_percent is not None and not config.allow_lossy:
        yield "--kv-guard-percent compares requests that --allow-lossy keeps in 8 bits: give --allow-lossy or leave it out"
