"""What a command line of `octavo serve` says about memory. Its other flags are passed over; the runtime checks them all."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from octavo_sizing.amounts import parse_bytes, parse_positive
from octavo_sizing.command_line import pairs
from octavo_sizing.contradictions import contradictions, flags_of
from octavo_sizing.errors import SizingError
from octavo_sizing.setup import DTYPES, KV_KINDS, PAGE_TOKENS, Setup

_AUTO = "auto"


def with_flags(setup: Setup, arguments: Sequence[str]) -> Setup:
    """`setup` as `arguments` change it, the last of a flag counting. Raises SizingError for what the runtime refuses."""
    changes: dict[str, Any] = {}
    for flag, value in pairs(arguments):
        if flag in _SWITCHES:
            field, held = _SWITCHES[flag]
            changes[field] = held
        elif flag in _VALUES and value is not None:
            field, parse = _VALUES[flag]
            try:
                changes[field] = parse(value)
            except SizingError as error:
                raise SizingError(f"{flag}: {error}") from error
    keys = changes.pop("keys", None)
    values = changes.pop("values", None)
    if keys is not None:
        changes["keys"] = changes["values"] = keys
    if values is not None:
        changes["values"] = values
    given = flags_of(arguments)
    changes["tiers"] = given.kv_tier_memory is not None or given.kv_tier_disk is not None
    found = dataclasses.replace(setup, **{field: value for field, value in changes.items() if value is not None})
    for text in contradictions(given):
        raise SizingError(text)
    return found


def _kind(text: str) -> Any:
    """Of keys or values; None is what is left to the model's type."""
    if text in (_AUTO, "bfloat16"):
        return "dense" if text == "bfloat16" else None
    if text not in KV_KINDS:
        raise _unknown(text, [_AUTO, "bfloat16", *KV_KINDS[1:]])
    return text


def _dtype(text: str) -> Any:
    if text != _AUTO and text not in DTYPES:
        raise _unknown(text, [_AUTO, *DTYPES])
    return None if text == _AUTO else text


def _page(text: str) -> int | None:
    if text != _AUTO and text not in map(str, PAGE_TOKENS):
        raise _unknown(text, [_AUTO, *map(str, PAGE_TOKENS)])
    return None if text == _AUTO else int(text)


def _unknown(text: str, known: Iterable[str]) -> SizingError:
    return SizingError(f"'{text}' is not one of {', '.join(known)}")


def _percent(text: str) -> int:
    if not re.fullmatch(r"\d+", text.strip()) or not 1 <= int(text) <= 100:
        raise SizingError(f"'{text}' is not a percentage: give a whole number from 1 to 100")
    return int(text)


_VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--block-size": ("page_tokens", _page),
    "--dtype": ("dtype", _dtype),
    "--gpu-memory-percent": ("memory_percent", _percent),
    "--kv-cache-dtype": ("keys", _kind),
    "--kv-cache-dtype-v": ("values", _kind),
    "--kv-cache-memory": ("kv_bytes", parse_bytes),
    "--kv-overflow-memory": ("overflow_bytes", parse_bytes),
    "--kv-tier-memory": ("tier_bytes", parse_bytes),
    "--max-model-len": ("max_model_len", parse_positive),
    "--max-num-batched-tokens": ("max_num_batched_tokens", parse_positive),
    "--max-num-seqs": ("max_num_seqs", parse_positive),
    "--nodes": ("nodes", parse_positive),
    "--tensor-parallel-size": ("tensor", parse_positive),
}
_SWITCHES = {
    "--allow-lossy": ("lossy", True),
    "--no-allow-lossy": ("lossy", False),
}
# The ladder only decides whether anything may be lossy, which contradictions tell.
KNOWN = frozenset(_VALUES) | frozenset(_SWITCHES) | {"--memory-ladder"}
