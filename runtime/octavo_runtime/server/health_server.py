"""The health port: a thread of its own, so that no request and no busy event loop stands before a probe."""

import http.server
import logging
import socket
import sys
import threading
from collections.abc import Callable
from typing import Protocol

from octavo_runtime.server.probe_answer import PATHS, ProbeAnswer

log = logging.getLogger(__name__)


class Answering(Protocol):
    def answer(self, path: str) -> ProbeAnswer | None:
        """None for a path that is not there."""
        ...


class HealthServer:
    """Serves `PATHS` until `stop`."""

    def __init__(self, host: str, port: int, probes: Answering) -> None:
        """Binds at once; raises OSError where the port is taken. `probes` may be replaced at any time."""
        self.probes = probes
        server = _ThreadingServer6 if ":" in host else _ThreadingServer
        self._server = server((host, port), _handler_of(lambda path: self.probes.answer(path)))
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _ThreadingServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is no news; anything else is."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            log.exception("a request to the health port failed")


class _ThreadingServer6(_ThreadingServer):
    address_family = socket.AF_INET6


def _text(status: int, text: str) -> ProbeAnswer:
    return ProbeAnswer(status, "text/plain; charset=utf-8", text.encode() + b"\n")


def _handler_of(answer: Callable[[str], ProbeAnswer | None]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        error_message_format = "%(code)d %(message)s\n"  # for what the library refuses itself, instead of HTML
        error_content_type = "text/plain; charset=utf-8"
        timeout = 30.0  # a connection that sends nothing must not hold a thread for ever

        def do_GET(self) -> None:  # the library's name
            self._write(answer(self.path.partition("?")[0]) or _text(404, f"only {', '.join(PATHS)} are here"))

        do_HEAD = do_GET  # noqa: N815  the library's name

        def do_POST(self) -> None:
            self.close_connection = True  # the body was not read: what follows it is no request
            self._write(_text(405, f"{self.command} is not for this port: {', '.join(PATHS)} take GET and HEAD"))

        do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST  # noqa: N815  the same

        def _write(self, answer: ProbeAnswer) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            if answer.status == http.HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", "GET, HEAD")
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Probes come every few seconds: not worth a line each."""

    return Handler
