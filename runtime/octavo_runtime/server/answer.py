"""The ASGI side of an answer: counts it for the drain, watches for the client's going away, and writes it whole or as a stream.

Everything about a request happens inside this response object, so that one place turns errors into bodies or, once the stream has
begun, into events. It listens to `receive` itself: middleware between would hide the disconnect.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import msgspec
from fastapi import Response
from starlette.types import Receive, Scope, Send

from octavo_runtime.server.errors import ApiError, EngineFailedError
from octavo_runtime.server.generation import Generation, Job
from octavo_runtime.server.request_ids import HEADER, fresh_id
from octavo_runtime.server.service import Service
from octavo_runtime.server.shapes import DONE, KEEP_ALIVE, Choice, Ended, error_event, event

log = logging.getLogger(__name__)


class Answer(Response):
    """`job` prepares the request (template, tokenizer, limits) and may raise ApiError."""

    def __init__(self, service: Service, job: Callable[[], Awaitable[Job]]) -> None:
        super().__init__()
        self._service = service
        self._job = job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = _Writer(send, self._headers_now)
        try:
            with self._service.drain.request(scope.get("client")):
                await _until_disconnect(self._run(writer), receive)
        except ApiError as error:
            await writer.error(error)
        except Exception:  # the request's outermost frame: the client gets an answer, the log the traceback
            log.exception("the request %s failed", writer.request_id)
            await writer.error(EngineFailedError("the server failed at this request; its log says why"))

    def _headers_now(self) -> dict[str, str]:
        """What every response says now: the memory ladder's level as far as it is known."""
        stats = self._service.engine.stats
        return {"x-octavo-pressure": str(stats.pressure_level if stats else 0)}

    async def _run(self, writer: "_Writer") -> None:
        job = await self._job()
        writer.request_id = job.shape.id
        generation = Generation(self._service, job)
        if job.options.stream:
            await self._stream(job, generation, writer)
        else:
            await self._whole(job, generation, writer)

    async def _whole(self, job: Job, generation: Generation, writer: "_Writer") -> None:
        texts = [""] * job.choices
        ends = [Ended("error")] * job.choices
        async with contextlib.aclosing(generation.pieces()) as pieces:
            async for piece in pieces:
                if piece is not None:
                    texts[piece.index] += piece.delta.text
                    ends[piece.index] = piece.delta.ended or ends[piece.index]
        choices = [Choice(text, ended) for text, ended in zip(texts, ends, strict=True)]
        await writer.json(job.shape.whole(choices, generation.usage()))

    async def _stream(self, job: Job, generation: Generation, writer: "_Writer") -> None:
        """The status is sent with the first piece, so that a refusal of the engine is still a plain error."""
        async with contextlib.aclosing(generation.pieces()) as pieces:
            async for piece in pieces:
                if not writer.started:
                    await writer.start_stream()
                    openings = [job.shape.opening(index) for index in range(job.choices)]
                    await writer.chunk(b"".join(event(opening) for opening in openings if opening is not None))
                if piece is None:
                    await writer.chunk(KEEP_ALIVE)
                elif piece.delta.text or piece.delta.ended:
                    await writer.chunk(event(job.shape.chunk(piece.index, piece.delta.text, piece.delta.ended)))
        usage = event(job.shape.usage_chunk(generation.usage())) if job.options.include_usage else b""
        await writer.end_stream(usage + DONE)


class _Writer:
    """Writes one response, knowing whether it has begun; `always` gives the headers of every response, when it begins.

    `request_id` is the answer's from when it is known.
    """

    def __init__(self, send: Send, always: Callable[[], dict[str, str]]) -> None:
        self._send = send
        self._always = always
        self.started = False
        self.request_id = fresh_id()

    async def json(self, content: object) -> None:
        await self._start(200, {"content-type": "application/json"})
        await self._body(msgspec.json.encode(content), more=False)

    async def start_stream(self) -> None:
        headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
        await self._start(200, headers | {"x-accel-buffering": "no"})

    async def chunk(self, data: bytes) -> None:
        if data:
            await self._body(data, more=True)

    async def end_stream(self, data: bytes) -> None:
        await self._body(data, more=False)

    async def error(self, error: ApiError) -> None:
        """A plain error while nothing was sent, an event of the stream afterwards."""
        if self.started:
            await self.end_stream(error_event(error.body()) + DONE)
        else:
            await self._start(error.status, {"content-type": "application/json"} | error.headers())
            await self._body(error.body(), more=False)

    async def _start(self, status: int, headers: dict[str, str]) -> None:
        self.started = True
        headers = headers | {HEADER: self.request_id} | self._always()
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def _body(self, data: bytes, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


async def _until_disconnect(work: Awaitable[None], receive: Receive) -> None:
    """Run `work` to its end, or cancel it when the client goes away first. Raises what `work` raises."""
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        else:
            log.debug("a client went away before its answer was complete")
    finally:
        watcher.cancel()
        task.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
