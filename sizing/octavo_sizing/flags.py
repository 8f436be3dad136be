"""What a command line of `octavo serve` says about memory. Its other flags are passed over; the runtime checks them all."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from octavo_sizing.amounts import parse_bytes
from octavo_sizing.errors import SizingError
from octavo_sizing.setup import DTYPES, KV_KINDS, PAGE_TOKENS, Setup

_AUTO = "auto"


def with_flags(setup: Setup, arguments: Iterable[str]) -> Setup:
    """`setup` as `arguments` change it, the last of a flag counting. Raises SizingError for what the runtime refuses."""
    changes: dict[str, Any] = {}
    for flag, value in _pairs(arguments):
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
    ladder = changes.pop("ladder", True)
    found = dataclasses.replace(setup, **{field: value for field, value in changes.items() if value is not None})
    if (
        "max_num_seqs" in changes and found.max_num_seqs > found.max_num_batched_tokens
    ):  # an automatic number is never more
        raise SizingError(
            f"--max-num-batched-tokens {found.max_num_batched_tokens} is less than --max-num-seqs {found.max_num_seqs}: every "
            "running sequence needs a token in a step: raise the first or lower the second"
        )
    return found if ladder else dataclasses.replace(found, lossy=False)


def _pairs(arguments: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Flags with their values, as `--flag=value` or `--flag value`."""
    waiting: str | None = None
    for argument in arguments:
        if not argument.startswith("--"):
            if waiting is not None:
                yield waiting, argument
            waiting = None
            continue
        if waiting is not None:
            yield waiting, None
        flag, separator, value = argument.partition("=")
        if separator:
            yield flag, value
        waiting = None if separator else flag
    if waiting is not None:
        yield waiting, None


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


def parse_positive(text: str) -> int:
    if not re.fullmatch(r"\d+", text.strip()) or int(text) < 1:
        raise SizingError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def _percent(text: str) -> int:
    if not re.fullmatch(r"\d+", text.strip()) or not 1 <= int(text) <= 100:
        raise SizingError(f"'{text}' is not a percentage: give a whole number from 1 to 100")
    return int(text)


def _context(text: str) -> int:
    if parse_positive(text) < 2:
        raise SizingError(f"'{text}' is too short for a prompt and an answer: give at least 2")
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
    "--max-model-len": ("max_model_len", _context),
    "--max-num-batched-tokens": ("max_num_batched_tokens", parse_positive),
    "--max-num-seqs": ("max_num_seqs", parse_positive),
    "--nodes": ("nodes", parse_positive),
    "--tensor-parallel-size": ("tensor", parse_positive),
}
_SWITCHES = {
    "--allow-lossy": ("lossy", True),
    "--no-allow-lossy": ("lossy", False),
    "--memory-ladder": ("ladder", True),
    "--no-memory-ladder": ("ladder", False),
}
KNOWN = frozenset(_VALUES) | frozenset(_SWITCHES)
