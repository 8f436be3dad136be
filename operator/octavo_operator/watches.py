"""When each watch of the API server was last heard of: an event, a bookmark, or the answer that opened it.

A watch that hangs looks like a cluster in which nothing happens. The API server sends a bookmark at least once a minute, so silence
tells. kopf opens a silent watch anew; what is measured here says whether that helped. It does its watching through the session
that this module makes, since it has no hook of its own for bytes that arrive.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import aiohttp

from octavo_operator import kinds, watch_stream

if TYPE_CHECKING:
    from aiohttp.connector import Connection

# A list costs the API server most of all requests; what fails for minutes need not be asked for more often.
_LONGEST_DELAY_S = 30.0


class Watches:
    """Ages by what is watched, as its path of the REST API, such as `/api/v1/pods`.

    `doubt` is set where an optional kind turns out to be served no more, or the API server refuses to show what is watched.
    `listed` is told of each kind whose watch begins with a list. `patience_s` is kopf's with a silent watch.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, patience_s: float = 70.0) -> None:
        self._clock = clock
        self._failures = watch_stream.Failures(min(_LONGEST_DELAY_S, patience_s / 2))
        self._heard_s: dict[str, float] = {}
        self.doubt = asyncio.Event()
        self._refused: set[kinds.Kind] = set()
        self.listed: Callable[[kinds.Kind], None] = lambda _: None

    def take_refused(self) -> frozenset[kinds.Kind]:
        """The kinds whose lists or watches were refused since this was asked last."""
        taken = frozenset(self._refused)
        self._refused.clear()
        return taken

    def ages_s(self) -> dict[str, float]:
        now_s = self._clock()
        return {path: now_s - heard_s for path, heard_s in self._heard_s.items()}

    def oldest(self) -> tuple[str, float]:
        """The path that is silent for longest, and for how long; 0 s where nothing is watched yet."""
        return max(self.ages_s().items(), key=lambda entry: entry[1], default=("", 0.0))

    def heard(self, path: str) -> None:
        self._heard_s[path] = self._clock()

    def forget(self, kind: kinds.Kind) -> None:
        """A kind that is no longer served is silent for good."""
        for path in [path for path in self._heard_s if _is_of(kind, path)]:
            del self._heard_s[path]

    def doubts(self, status: int, path: str) -> bool:
        """Whether the answer tells of a kind that is gone, or that may not be watched; kept, where it does."""
        refused = [kind for kind in kinds.WATCHED if status == 403 and _is_of(kind, path)]
        gone = status == 404 and any(_is_of(kind, path) for kind in kinds.OPTIONAL)
        if not refused and not gone:
            return False
        self._refused.update(refused)
        self.doubt.set()
        return True

    def begins(self, path: str) -> None:
        """A watch of `path` begins with a list."""
        for kind in kinds.WATCHED:
            if _is_of(kind, path):
                self.listed(kind)

    def session(self, tls: ssl.SSLContext | bool, headers: Mapping[str, str]) -> aiohttp.ClientSession:
        """A client session whose watches are listened to."""
        watches, failures = self, self._failures

        class Response(aiohttp.ClientResponse):
            async def start(self, connection: "Connection") -> aiohttp.ClientResponse:
                await super().start(connection)
                if watches.doubts(self.status, self.url.path) or self.status >= 500:
                    # For kopf each is the end of all watches (of 5xx, the ninth); a server that is too busy is asked again.
                    self.status = 429
                if self.url.query.get("watch") == "true" and self.status == 200:
                    path = self.url.path
                    watches.heard(path)
                    self.content = watch_stream.EventStream(self.content, path, watches.heard, failures)  # type: ignore[assignment] # a stand-in
                elif self.status == 200 and "continue" not in self.url.query:
                    watches.begins(self.url.path)
                return self

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls), headers=headers, trust_env=False, response_class=Response
        )


def _is_of(kind: kinds.Kind, path: str) -> bool:
    """Whether objects of `kind` are listed and watched at `path`."""
    root = f"/apis/{kind.api_version}/" if kind.group else f"/api/{kind.api_version}/"
    return path.startswith(root) and path.endswith(f"/{kind.plural}")
