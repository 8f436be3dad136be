"""The soak's client: sends one request, again after a 503, or goes away from it at the moment that it is told to."""

import asyncio
import dataclasses
import socket
import struct
from typing import Literal

import aiohttp

from bench.soak_answer import Answer, parsed, problem
from bench.soak_traffic import Ask, Completion, Leave

LIMIT_S = 120.0  # a request without an end by then is lost
_HEADERS = {"content-type": "application/json"}

End = Literal["finished", "expired", "refused", "left", "wrong"]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a request ended; `text` says what is wrong with a wrong one."""

    end: End
    text: str = ""


class Client:
    """Keeps the first answers to the fixed questions in `first`, and counts how often the server was busy."""

    def __init__(self, host: str, port: int, concurrency: int, first: dict[str, tuple[str, ...]]) -> None:
        """At most `concurrency` requests are in flight; one that sleeps before it asks again is not."""
        self.concurrency = concurrency
        self._places = asyncio.Semaphore(concurrency)
        self._host, self._port = host, port
        self._session = aiohttp.ClientSession(
            f"http://{host}:{port}",
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),
            auto_decompress=False,
        )
        self._first = first
        self.busy = 0
        self.compared = 0

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()

    async def outcome(self, ask: Ask) -> Outcome:
        try:
            async with asyncio.timeout(LIMIT_S):
                answer = await self._patiently(ask)
        except TimeoutError:
            return Outcome("wrong", f"no end after {LIMIT_S:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return Outcome("wrong", f"the connection broke: {error!r}")
        return Outcome("left") if answer is None else self._judged(ask, answer)

    async def _patiently(self, ask: Ask) -> Answer | None:
        """Ask until the server is not busy; None when the client left."""
        while True:
            async with self._places:
                answer = await self._once(ask)
            if answer is None or answer.status != 503 or not answer.retry_after_s:
                return answer
            self.busy += 1
            await asyncio.sleep(answer.retry_after_s)

    async def _once(self, ask: Ask) -> Answer | None:
        leave = ask.leave
        if leave is None:
            return await self._whole(ask)
        if leave.parting in ("half sent", "just sent"):
            await self._send_and_go(ask, leave)
            return None
        if leave.parting == "mid-stream":
            return await self._some_chunks(ask, leave.chunks)
        try:
            async with asyncio.timeout(leave.after_s):
                return await self._whole(ask)
        except TimeoutError:
            return None

    async def _whole(self, ask: Ask) -> Answer:
        async with self._session.post(ask.path, data=ask.body, headers=_HEADERS) as response:
            return parsed(response.status, response.headers.get("retry-after"), await response.read(), ask.streamed)

    async def _some_chunks(self, ask: Ask, count: int) -> Answer | None:
        """Read at most `count` chunks and close the connection; an answer that is whole by then counts."""
        async with self._session.post(ask.path, data=ask.body, headers=_HEADERS) as response:
            body = b""
            while not response.content.at_eof():
                if count == 0:
                    response.close()
                    return None
                body += await response.content.readany()
                count -= 1
            return parsed(response.status, response.headers.get("retry-after"), body, ask.streamed)

    async def _send_and_go(self, ask: Ask, leave: Leave) -> None:
        """On a connection of its own: a pool would not let go of it in the middle of a request."""
        _, writer = await asyncio.open_connection(self._host, self._port)
        head = [f"POST {ask.path} HTTP/1.1", f"host: {self._host}", "content-type: application/json"]
        data = "\r\n".join([*head, f"content-length: {len(ask.body)}", "", ""]).encode() + ask.body
        writer.write(data if leave.parting == "just sent" else data[: len(data) // 2])
        await writer.drain()
        if leave.reset:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()
        await writer.wait_closed()

    def _judged(self, ask: Ask, answer: Answer) -> Outcome:
        fixed = ask.expected.fixed if isinstance(ask.expected, Completion) else None
        wrong = problem(ask, answer, self._first.get(fixed) if fixed else None)
        if wrong is not None:
            return Outcome("wrong", wrong)
        if not isinstance(ask.expected, Completion):
            return Outcome("refused")
        if fixed is not None and not answer.expired:
            self._first.setdefault(fixed, answer.texts)
            self.compared += 1
        return Outcome("expired" if answer.expired else "finished")
