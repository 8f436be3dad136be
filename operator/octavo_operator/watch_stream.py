"""What a watch of the API server brings, line by line, before kopf reads it.

kopf lists again where an ERROR event says 410, and ends the whole operator at any other. The API server sends others too, such as
500 where its storage is away or an object cannot be decoded: each is logged here and handed on as a 410, after a delay that
doubles while nothing but errors comes.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp

from octavo_operator import backoff

logger = logging.getLogger(__name__)

GONE = 410
_FIRST_DELAY_S = 1.0
_GONE_EVENT = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": GONE}}).encode() + b"\n"


class Failures:
    """How often in a row each watch, by its path, brought an error. `longest_delay_s` has to be shorter than kopf's patience with
    a silent watch, since it would open it anew without a list."""

    def __init__(self, longest_delay_s: float) -> None:
        self._longest_delay_s = longest_delay_s
        self._in_a_row: dict[str, int] = {}

    def ended(self, path: str) -> None:
        self._in_a_row.pop(path, None)

    def count(self, path: str) -> float:
        """One more; the seconds to wait."""
        self._in_a_row[path] = self._in_a_row.get(path, 0) + 1
        return backoff.delay_s(_FIRST_DELAY_S, self._longest_delay_s, self._in_a_row[path])


class EventStream:
    """A response's stream that tells of each piece, and in which every event is whole and no error is other than 410."""

    def __init__(
        self, stream: aiohttp.StreamReader, path: str, heard: Callable[[str], None], failures: Failures
    ) -> None:
        self._stream = stream
        self._path = path
        self._heard = heard
        self._failures = failures

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Whole lines. What follows the last one is half an event of a connection that ended: the next watch brings it whole."""
        rest = b""
        async for piece in self._stream.iter_chunked(size):
            self._heard(self._path)
            whole, newline, rest = (rest + piece).rpartition(b"\n")
            if not newline:
                continue
            if b'"ERROR"' not in whole:
                self._failures.ended(self._path)
                yield whole + newline
                continue
            for line in whole.splitlines(keepends=True):
                yield await self._bearable(line.removesuffix(b"\n") + b"\n")

    async def _bearable(self, line: bytes) -> bytes:
        """The line, or a 410 in place of another error, once its delay is over."""
        event = json.loads(line)
        if event.get("type") != "ERROR":
            self._failures.ended(self._path)
            return line
        status = event.get("object") or {}
        if status.get("code") == GONE:
            return line
        delay_s = self._failures.count(self._path)
        logger.warning(
            "the watch of %s brought an error, lists again in %.0f s: %s", self._path, delay_s, _words(status)
        )
        await asyncio.sleep(delay_s)
        return _GONE_EVENT

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _words(status: dict[str, Any]) -> str:
    """What the API server says in a Status object."""
    said = status.get("message") or status.get("reason") or "it says nothing about it"
    return f"{said} ({status['code']})" if "code" in status else str(said)
