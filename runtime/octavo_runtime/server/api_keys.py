"""Who may use the API: those who give one of the keys in a file as `Authorization: Bearer`. Health and metrics need none.

The file is looked at again when it changes, at most once a second, so that keys are turned over without a restart: a mounted
Secret's file is replaced as a whole. One that cannot be read leaves the keys as they were; an empty one leaves nobody.
"""

import hashlib
import hmac
import logging
import os
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from octavo_runtime.config import ConfigError
from octavo_runtime.server.errors import UnauthorizedError
from octavo_runtime.server.probe_answer import PATHS

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
_Stamp = tuple[int, int, int]  # what a file that was replaced or written differs in


class ApiKeys:
    """The keys in `path`. Raises ConfigError where it cannot be read or holds none."""

    def __init__(self, path: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock_s = clock_s
        self._looked_s = clock_s()
        try:
            self._stamp, self._digests = _read(path)
        except OSError as error:
            raise ConfigError(f"--api-key-file {path} cannot be read: {error.strerror}") from error
        if not self._digests:
            raise ConfigError(f"--api-key-file {path} holds no key: write one a line, or leave the flag out")

    def accept(self, authorization: str | None) -> bool:
        """Whether a header's value names one of the keys. Takes as long for any other."""
        self._look()
        scheme, _, key = (authorization or "").partition(" ")
        given, found = _digest(key.strip().encode()), False
        for digest in self._digests:
            found |= hmac.compare_digest(digest, given)
        return found and scheme.lower() == "bearer"

    def _look(self) -> None:
        if self._clock_s() - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = self._clock_s()
        try:
            if _stamp(os.stat(self._path)) == self._stamp:
                return
            self._stamp, self._digests = _read(self._path)
        except OSError as error:
            log.warning("--api-key-file %s cannot be read (%s): the keys stay as they were", self._path, error.strerror)
            return
        log.info("--api-key-file %s has changed: %d keys", self._path, len(self._digests))


class KeyGate:
    """The application behind it is reached with a key only, but for what probes and scrapers ask."""

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PATHS or self._keys.accept(_authorization(scope)):
            await self._app(scope, receive, send)
            return
        error = UnauthorizedError(given=_authorization(scope) is not None)
        headers = [(name.encode(), value.encode()) for name, value in error.headers().items()]
        body = error.body()
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": error.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _authorization(scope: Scope) -> str | None:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    return found[0].decode("latin-1") if len(found) == 1 else None


def _read(path: str) -> tuple[_Stamp, list[bytes]]:
    with open(path, "rb") as file:
        stamp = _stamp(os.fstat(file.fileno()))
        lines = [line.strip() for line in file.read().splitlines()]
    return stamp, [_digest(line) for line in lines if line]


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _digest(key: bytes) -> bytes:
    """Of equal length, whatever the key's."""
    return hashlib.sha256(key).digest()
