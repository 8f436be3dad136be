"""Clients to whom each request matters: none is retried, each answer has to be whole. They ask again and again while a block runs,
by turns at once and after a pause, since a server may end a connection in either moment.

Of each kind one: streamed and not, over a connection for each request and over one that is kept as long as the server lets it.
"""

import http.client
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

TIMEOUT_S = 120.0
PAUSES_S = (0.0, 0.3)


@dataclass
class Tally:
    """`whole` answers, by kind of client; `lost` says what became of the other requests."""

    whole: dict[str, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def total(self) -> int:
        return sum(self.whole.values())


@contextmanager
def asking(address: str, model: str, tokens: int) -> Iterator[Tally]:
    """Asks `address` (host:port) for answers of that many tokens; at the end of the block each client finishes the one it is at."""
    tally, stop = Tally(), threading.Event()
    clients = [_Client(address, model, tokens, stream, kept) for stream in (True, False) for kept in (True, False)]
    threads = [threading.Thread(target=client.ask_on, args=(tally, stop), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield tally
    finally:
        stop.set()
        for thread in threads:
            thread.join(TIMEOUT_S)


class _Client:
    def __init__(self, address: str, model: str, tokens: int, stream: bool, kept: bool) -> None:
        self._address = address
        self._tokens = tokens
        self._kept = kept
        self._body = json.dumps(
            {
                "model": model,
                "messages": [{"role": "user", "content": "Tell me a long story about paper."}],
                "max_tokens": tokens,
                "temperature": 0.0,
                "ignore_eos": True,
                "stream": stream,
                **({"stream_options": {"include_usage": True}} if stream else {}),
            }
        )
        self._stream = stream
        self._connection: http.client.HTTPConnection | None = None
        self.kind = f"{'streamed' if stream else 'whole'} over {'a kept' if kept else 'an own'} connection"

    def ask_on(self, tally: Tally, stop: threading.Event) -> None:
        tally.whole[self.kind] = 0
        pauses_s = itertools.cycle(PAUSES_S)
        while not stop.wait(next(pauses_s)):
            try:
                self._ask()
            except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
                tally.lost.append(f"{self.kind}: {type(error).__name__} {error}")
                self._leave()
            else:
                tally.whole[self.kind] += 1
        self._leave()

    def _ask(self) -> None:
        """Raises where the answer is not whole."""
        connection = self._connection = self._connection or http.client.HTTPConnection(self._address, timeout=TIMEOUT_S)
        connection.request("POST", "/v1/chat/completions", self._body, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise ValueError(f"{answer.status} {text}")
        finish, tokens = _streamed(text) if self._stream else _whole(json.loads(text))
        if (finish, tokens) != ("length", self._tokens):
            raise ValueError(f"ended with {finish} after {tokens} tokens")
        if answer.will_close or not self._kept or _is_left(connection):
            self._leave()

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _whole(answer: Any) -> tuple[str, int]:
    return answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"]


def _streamed(text: str) -> tuple[str, int]:
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line.startswith("data: ")]
    if events[-1] != "[DONE]":
        raise ValueError(f"the stream ended with {events[-1]}")
    chunks = [json.loads(event) for event in events[:-1]]
    finish = [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"]]
    return finish[-1], chunks[-1]["usage"]["completion_tokens"]


def _is_left(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has ended the connection, as every client that pools them looks before it takes one again."""
    connection.sock.setblocking(False)
    try:
        return connection.sock.recv(1) == b""
    except BlockingIOError:
        return False
    finally:
        connection.sock.settimeout(TIMEOUT_S)
