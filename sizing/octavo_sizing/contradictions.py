"""Which flags of `octavo serve` cannot be together, whoever serves what.

The runtime asks for its configuration, the operator for the command line that it would give to pods. What only the runtime's
machine tells is in its own `contradictions.py`.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from octavo_sizing.amounts import parse_positive
from octavo_sizing.command_line import pairs
from octavo_sizing.errors import SizingError
from octavo_sizing.setup import DEFAULT_MAX_NUM_BATCHED_TOKENS


class Flags(Protocol):
    """By the names of the runtime's configuration. Of what is an `object` it only matters whether it is given."""

    @property
    def max_model_len(self) -> int | None: ...
    @property
    def max_num_seqs(self) -> int | None: ...
    @property
    def max_num_batched_tokens(self) -> int: ...
    @property
    def prefix_caching(self) -> bool: ...
    @property
    def kv_tier_memory(self) -> object: ...
    @property
    def kv_tier_disk(self) -> object: ...
    @property
    def kv_tier_disk_size(self) -> object: ...
    @property
    def memory_ladder(self) -> bool: ...
    @property
    def allow_lossy(self) -> bool: ...
    @property
    def kv_guard_percent(self) -> object: ...


@dataclasses.dataclass(frozen=True)
class GivenFlags:
    """With the defaults of `octavo serve`."""

    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int = DEFAULT_MAX_NUM_BATCHED_TOKENS
    prefix_caching: bool = True
    kv_tier_memory: str | None = None
    kv_tier_disk: str | None = None
    kv_tier_disk_size: str | None = None
    memory_ladder: bool = True
    allow_lossy: bool = False
    kv_guard_percent: str | None = None


def flags_of(arguments: Iterable[str]) -> GivenFlags:
    """What a command line says, the last of a flag counting; other flags are passed over. Raises SizingError for no number."""
    known = {"--" + field.name.replace("_", "-"): field for field in dataclasses.fields(GivenFlags)}
    given: dict[str, Any] = {}
    for flag, value in pairs(arguments):
        field = known.get(flag.replace("--no-", "--", 1))
        if field is None:
            continue
        if isinstance(field.default, bool):
            given[field.name] = not flag.startswith("--no-")
        elif value is not None:
            given[field.name] = _number(flag, value) if field.name in _NUMBERS else value
    return GivenFlags(**given)


def contradictions(flags: Flags) -> Iterator[str]:
    """Each names the flags and the remedy."""
    if flags.max_model_len is not None and flags.max_model_len < 2:
        yield f"--max-model-len {flags.max_model_len} is too short for a prompt and an answer: give at least 2"
    if flags.max_num_batched_tokens < (flags.max_num_seqs or 1):  # an automatic number is never more
        yield (
            f"--max-num-batched-tokens {flags.max_num_batched_tokens} is less than --max-num-seqs {flags.max_num_seqs}: every "
            "running sequence needs a token in a step: raise the first or lower the second"
        )
    yield from _of_tiers(flags)
    yield from _of_the_ladder(flags)


def _of_tiers(flags: Flags) -> Iterator[str]:
    if flags.kv_tier_disk_size is not None and flags.kv_tier_disk is None:
        yield "--kv-tier-disk-size bounds a folder that is not given: give --kv-tier-disk or leave it out"
    tiers = {"--kv-tier-memory": flags.kv_tier_memory, "--kv-tier-disk": flags.kv_tier_disk}
    given = next((flag for flag, value in tiers.items() if value is not None), None)
    if given is not None and not flags.prefix_caching:
        yield f"{given} keeps pages to be found again, and --no-prefix-caching finds none: leave one of them out"


def _of_the_ladder(flags: Flags) -> Iterator[str]:
    if flags.allow_lossy and not flags.memory_ladder:
        yield "--allow-lossy lets the memory ladder keep requests in 8 bits, and --no-memory-ladder turns it off: leave one out"
    if flags.kv_guard_percent is not None and not flags.allow_lossy:
        yield "--kv-guard-percent compares requests that --allow-lossy keeps in 8 bits: give --allow-lossy or leave it out"


_NUMBERS = ("max_model_len", "max_num_seqs", "max_num_batched_tokens")


def _number(flag: str, text: str) -> int:
    try:
        return parse_positive(text)
    except SizingError as error:
        raise SizingError(f"{flag}: {error}") from error
