"""Text that is no text: JSON may spell half of a UTF-16 pair (`"\\ud83d"`), which no encoding and no tokenizer can take.

Clients that cut strings by UTF-16 units send such halves. Refused in one place, before anything else looks at the body.
"""

import re
from collections.abc import Iterator

from fastapi import Request

from octavo_runtime.server.errors import BadRequestError, field_path

# What a body with a surrogate must hold: its escape, its three bytes, or (UTF-16 and UTF-32 are JSON too) a zero byte. The search
# spares ordinary bodies the walk.
_SUSPICIOUS = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]|\x00")
_SURROGATE = re.compile("[\ud800-\udfff]")


async def check_body(request: Request) -> None:
    """Raises BadRequestError that names the field with half a pair. A body that is not JSON is left to validation."""
    if not _SUSPICIOUS.search(await request.body()):
        return
    try:
        body = await request.json()
    except (ValueError, RecursionError):
        return
    check_value(body)


def check_value(body: object) -> None:
    for path, text in _texts(body):
        found = _SURROGATE.search(text)
        if found is not None:
            field = field_path(path)
            prefix = f"{field}: " if field else ""
            raise BadRequestError(
                f"{prefix}half of a UTF-16 surrogate pair (\\u{ord(found[0]):04x}) is not text: send whole characters",
                param=field,
            )


def _texts(body: object) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every string with the path to it; a field's name comes with the path to its object. No recursion: depth is the client's."""
    pending: list[tuple[tuple[str | int, ...], object]] = [((), body)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, list):
            pending.extend(((*path, index), item) for index, item in enumerate(value))
        elif isinstance(value, dict):
            for name in value:
                yield path, name
            pending.extend(((*path, name), item) for name, item in value.items())
