"""What a command line of `octavo serve` says about memory. Its other flags are passed over; the runtime checks them all."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from octavo_sizing.amounts import parse_bytes
from octavo_sizing.errors import SizingError
from octavo_sizing.setup import DTYPES, KV_KINDS, Setup

_AUTO = "auto"


def with_flags(setup: Setup, arguments: Iterable[str]) -> Setup:
    """`setup` as `arguments` change it, the last of a flag counting. Raises SizingError for a value that cannot be read."""
    changes: dict[str, Any] = {}
    for flag, value in _pairs(arguments):
        if flag in _SWITCHES:
            field, held = _SWITCHES[flag]
            changes[field] = held
        elif flag in _VALUES and value is not None:
            field, parse = _VALUES[flag]
            try:
                changes[field] = parse(value)
            except ValueError as error:
                raise SizingError(f"{flag}: '{value}' cannot be read ({error}): correct it") from error
    keys = changes.pop("keys", None)
    values = changes.pop("values", None)
    if keys is not None:
        changes["keys"] = changes["values"] = keys
    if values is not None:
        changes["values"] = values
    ladder = changes.pop("ladder", True)
    found = dataclasses.replace(setup, **{field: value for field, value in changes.items() if value is not None})
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
        raise ValueError(f"known: {_AUTO}, bfloat16, {', '.join(KV_KINDS[1:])}")
    return text


def _dtype(text: str) -> Any:
    if text != _AUTO and text not in DTYPES:
        raise ValueError(f"known: {_AUTO}, {', '.join(DTYPES)}")
    return None if text == _AUTO else text


def _page(text: str) -> int | None:
    return None if text == _AUTO else int(text)


_VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--block-size": ("page_tokens", _page),
    "--dtype": ("dtype", _dtype),
    "--gpu-memory-percent": ("memory_percent", int),
    "--kv-cache-dtype": ("keys", _kind),
    "--kv-cache-dtype-v": ("values", _kind),
    "--kv-cache-memory": ("kv_bytes", parse_bytes),
    "--kv-tier-memory": ("tier_bytes", parse_bytes),
    "--max-model-len": ("max_model_len", int),
    "--max-num-batched-tokens": ("max_num_batched_tokens", int),
    "--max-num-seqs": ("max_num_seqs", int),
    "--nodes": ("nodes", int),
    "--tensor-parallel-size": ("tensor", int),
}
_SWITCHES = {
    "--allow-lossy": ("lossy", True),
    "--no-allow-lossy": ("lossy", False),
    "--memory-ladder": ("ladder", True),
    "--no-memory-ladder": ("ladder", False),
}
KNOWN = frozenset(_VALUES) | frozenset(_SWITCHES)
