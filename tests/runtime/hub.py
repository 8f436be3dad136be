"""A hub of models on one address, as far as the real client library speaks to it: revisions, files by range, tokens, redirects.

Large files (`LARGE_BYTES` and more) are told by their sha256 and come from a second server on another port, as from a hub's
storage: the token must not reach that one.
"""

import contextlib
import dataclasses
import hashlib
import http.server
import json
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LARGE_BYTES = 4096
_PIECE_BYTES = 1 << 16


@dataclasses.dataclass(frozen=True)
class Repository:
    """`revisions`: what branches and tags mean. `token`: without it nobody sees the repository. `gated`: seen, not read."""

    commit: str
    files: Mapping[str, bytes]
    token: str | None = None
    gated: bool = False

    @classmethod
    def of(cls, folder: Path, token: str | None = None, commit: str = "1" * 40) -> "Repository":
        found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return cls(commit, {str(name): content for name, content in sorted(found.items())}, token)


@dataclasses.dataclass(frozen=True)
class Asked:
    """One request."""

    path: str
    range: str | None
    authorization: str | None
    storage: bool  # of the second server


@dataclasses.dataclass
class Hub:
    """Tests read `asked`, and set what goes wrong."""

    repositories: dict[str, Repository]
    endpoint: str = ""
    storage: str = ""
    asked: list[Asked] = dataclasses.field(default_factory=list)
    cut_after: dict[str, list[int]] = dataclasses.field(default_factory=dict)  # bytes of a longer answer; once each
    spoiled: dict[str, int] = dataclasses.field(default_factory=dict)  # how often a file comes with a wrong byte
    busy: int = 0  # how many requests get 503
    knows_ranges: bool = True
    gate: threading.Event | None = None  # files wait for it after their first piece

    def ranges(self, name: str) -> list[str | None]:
        """Of the requests that a file's content was sent for."""
        sent = [one for one in self.asked if one.path.endswith(f"/{name}")]
        return [one.range for one in sent if one.storage or not any(other.storage for other in sent)]


@contextlib.contextmanager
def running_hub(repositories: dict[str, Repository], host: str = "127.0.0.1") -> Iterator[Hub]:
    hub = Hub(repositories)
    servers = [_Server(hub, host, storage) for storage in (False, True)]
    hub.endpoint, hub.storage = (f"http://{host}:{server.server_address[1]}" for server in servers)
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub: Hub, host: str, storage: bool) -> None:
        super().__init__((host, 0), _Handler)
        self.hub = hub
        self.storage = storage

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is what tests are about."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:  # the library's name
        hub, path = self.server.hub, unquote(urlsplit(self.path).path)
        asked = Asked(path, self.headers.get("Range"), self.headers.get("Authorization"), self.server.storage)
        hub.asked.append(asked)
        if hub.busy:
            hub.busy -= 1
            return self._refuse(503, None, "busy")
        about = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        name = (about or file or [None, ""])[1]
        repository = hub.repositories.get(str(name))
        if repository is None or (repository.token and not self.server.storage and not self._knows(repository)):
            return self._refuse(401, "RepoNotFound", "Invalid username or password.")
        if about is not None:
            return self._about(str(name), repository, about[2] or "main")
        assert file is not None
        return self._file(repository, file[2], file[3])

    def _knows(self, repository: Repository) -> bool:
        return self.headers.get("Authorization") == f"Bearer {repository.token}"

    def _about(self, name: str, repository: Repository, revision: str) -> None:
        if revision not in ("main", repository.commit):
            return self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        siblings = [_about_file(name, content) for name, content in repository.files.items()]
        return self._json({"id": name, "modelId": name, "sha": repository.commit, "siblings": siblings})

    def _file(self, repository: Repository, commit: str, name: str) -> None:
        if repository.gated:
            return self._refuse(403, "GatedRepo", "Access to this model is restricted.")
        if commit != repository.commit:
            return self._refuse(404, "RevisionNotFound", f"Invalid rev id: {commit}")
        if name not in repository.files:
            return self._refuse(404, "EntryNotFound", f"{name} does not exist")
        content = repository.files[name]
        if len(content) >= LARGE_BYTES and not self.server.storage:
            self.send_response(302)
            self.send_header("Location", f"{self.server.hub.storage}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        return self._content(name, content)

    def _content(self, name: str, content: bytes) -> None:
        hub = self.server.hub
        begin, end = _range(self.headers.get("Range") if hub.knows_ranges else None, len(content))
        if hub.spoiled.get(name, 0):
            hub.spoiled[name] -= 1
            content = content[:-1] + bytes([content[-1] ^ 1])
        cuts = hub.cut_after.get(name, [])
        cut = cuts.pop(0) if cuts and cuts[0] < end - begin else None
        self.send_response(206 if self.headers.get("Range") and hub.knows_ranges else 200)
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        upto = end if cut is None else begin + cut
        for at in range(begin, upto, _PIECE_BYTES):
            self.wfile.write(content[at : min(at + _PIECE_BYTES, upto)])
            if hub.gate is not None:
                self.wfile.flush()
                hub.gate.wait(60)
        self.close_connection = self.close_connection or upto < end

    def _refuse(self, status: int, code: str | None, text: str) -> None:
        self._json({"error": text}, status, code)

    def _json(self, body: Any, status: int = 200, code: str | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if code is not None:
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", str(body["error"]))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Tests look at `asked`."""


def _about_file(name: str, content: bytes) -> dict[str, Any]:
    about: dict[str, Any] = {"rfilename": name, "size": len(content)}
    if len(content) >= LARGE_BYTES:
        about["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    return about | {"blobId": blob.hexdigest()}


def _range(header: str | None, size: int) -> tuple[int, int]:
    found = re.fullmatch(r"bytes=(\d+)-(\d*)", header or "")
    if found is None:
        return 0, size
    return int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
