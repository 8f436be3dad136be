"""A streamed request over a bare socket, so that a test can kill the connection or read it while the server drains."""

import http.client
import json
import socket
import struct
from typing import Any

from tests.runtime.server.running import RunningServer
from tests.runtime.server.tiny_model import CONTEXT_TOKENS


class Stream:
    """A chat answer in progress; closed at the end of its `with` block."""

    def __init__(
        self, server: RunningServer, max_tokens: int = CONTEXT_TOKENS - 100, stream: bool = True, **options: Any
    ) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": max_tokens,
            "ignore_eos": True,
            "stream": stream,
            **options,
        }
        headers = {"content-type": "application/json"}
        self.connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        self._socket = self.connection.sock
        self._answer: http.client.HTTPResponse | None = None

    def begin(self) -> "Stream":
        """Wait for the status line."""
        self._answer = self.response()
        assert self._answer.status == 200
        return self

    def response(self) -> http.client.HTTPResponse:
        return self.connection.getresponse()

    def rest(self) -> list[dict[str, Any]]:
        """The events that are left, without the final [DONE], which must be there."""
        assert self._answer is not None, "begin first"
        lines = [line for line in self._answer.read().decode().split("\n\n") if line and not line.startswith(":")]
        assert lines[-1] == "data: [DONE]", lines[-1]
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()

    def kill(self) -> None:
        """Go away without a word: the kernel sends a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if self._answer is not None:
            self._answer.close()  # it holds the socket, too
        self._socket.close()
