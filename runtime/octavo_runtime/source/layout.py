"""Which files of a model's folder are its weights, and which of a repository the runtime reads. Pure."""

import json
from collections.abc import Callable, Iterable

INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
CONFIG = "config.json"
_TEXT = (  # read by `text/folder.py`
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
)


class LayoutError(ValueError):
    """The names do not make a model; the text says what lacks."""


def weight_files(names: Iterable[str], read_index: Callable[[], str | bytes]) -> list[str]:
    """The safetensors files that hold the weights, by what else is there: an index names them; `model.safetensors` is all of
    them, for beside it some folders hold the weights once more in their maker's own form; else it is every one.

    Raises LayoutError where the index cannot be read.
    """
    there = set(names)
    if INDEX in there:
        return indexed(read_index())
    return [WHOLE] if WHOLE in there else sorted(name for name in there if name.endswith(".safetensors"))


def indexed(index: str | bytes) -> list[str]:
    """The files that an index names. Raises LayoutError."""
    try:
        named = sorted(set(json.loads(index)["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayoutError(f"cannot be read as an index of shards ({error!r})") from error
    strange = [name for name in named if not isinstance(name, str) or "/" in name]
    if strange:
        raise LayoutError(f"names {strange[0]!r}, which is no file beside it")
    return named


def needed_files(names: Iterable[str], read_index: Callable[[], str | bytes]) -> list[str]:
    """Of a repository's files those that serving its safetensors reads; none where it has no safetensors. Raises LayoutError."""
    there = {name for name in names if "/" not in name}
    weights = weight_files(there, read_index)
    if not weights:
        return []
    missing = [name for name in (CONFIG, "tokenizer.json", *weights) if name not in there]
    if missing:
        raise LayoutError(f"has no {', '.join(missing)}")
    about = [name for name in (CONFIG, INDEX, *_TEXT) if name in there]
    return [*about, *weights]


def gguf_files(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.endswith(".gguf"))
