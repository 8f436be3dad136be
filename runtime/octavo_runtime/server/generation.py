"""From a job to its answer: runs the requests on the engine and yields what each output gives the client.

Stop strings end a sequence here, so its request is aborted here; what the engine generated past one is dropped.
"""

import asyncio
import dataclasses
import time
from collections.abc import AsyncGenerator

from octavo_runtime.messages import AddRequest, Output
from octavo_runtime.server.engine_client import Outputs
from octavo_runtime.server.errors import from_engine
from octavo_runtime.server.schema import Options
from octavo_runtime.server.sequence_text import Delta, SequenceText
from octavo_runtime.server.service import Service
from octavo_runtime.server.shapes import Ended, Shape, Usage

KEEP_ALIVE_S = 10.0


@dataclasses.dataclass(frozen=True)
class Job:
    """Requests for the engine (one a choice), the options they came with, and the shape of the answer."""

    requests: list[AddRequest]
    options: Options
    shape: Shape


@dataclasses.dataclass(frozen=True)
class Piece:
    """What one output gave choice `index`."""

    index: int
    delta: Delta


class Generation:
    """One job on the engine. Iterate `pieces` to its end, then ask for `usage`."""

    def __init__(self, service: Service, job: Job) -> None:
        self._service = service
        self._job = job
        self._arrived_s = time.monotonic()
        self._choices = [_Choice(service, request, job.options, self._arrived_s) for request in job.requests]

    async def pieces(self) -> AsyncGenerator[Piece | None, None]:
        """Text as it comes; None when nothing came for a while. Raises ApiError when the engine refuses or fails.

        Leaving the iteration early aborts what is not finished.
        """
        with self._service.engine.generate(self._job.requests) as outputs:
            try:
                open_choices = len(self._choices)
                while open_choices:
                    arrived = await _next(outputs)
                    if arrived is None:
                        yield None
                        continue
                    index, output = arrived
                    delta = self._feed(index, output)
                    open_choices -= delta.ended is not None
                    yield Piece(index, delta)
            finally:
                for choice in self._choices:
                    choice.close()

    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=sum(len(request.prompt_ids) for request in self._job.requests),
            completion_tokens=sum(choice.text.completion_tokens for choice in self._choices),
            cached_tokens=sum(choice.text.cached_tokens for choice in self._choices),
        )

    def _feed(self, index: int, output: Output) -> Delta:
        choice = self._choices[index]
        if output.error is not None:
            choice.end("error")
            raise from_engine(output.error)
        delta = choice.feed(output)
        if choice.text.stopped_here:
            self._service.engine.abort([output.id])
        return delta


class _Choice:
    """Text and timing of one request to the engine."""

    def __init__(self, service: Service, request: AddRequest, options: Options, arrived_s: float) -> None:
        self._service = service
        self._request = request
        self._arrived_s = self._last_s = arrived_s
        self._ended = False
        self.text = SequenceText(options, service.text.tokenizer)
        service.pace.expect(request.id, request.max_tokens or service.engine_info().max_model_len)

    def feed(self, output: Output) -> Delta:
        self._time(len(output.token_ids))
        delta = self.text.feed(output)
        if delta.ended is not None:
            self._finish(delta.ended)
        return delta

    def end(self, reason: str) -> None:
        """Count the request's end, once."""
        if not self._ended:
            self._ended = True
            self._service.metrics.request_ended(reason)

    def close(self) -> None:
        """The iteration is over: a request that did not end was given up by the client."""
        self.end("abort")
        self._service.pace.forget(self._request.id)

    def _time(self, tokens: int) -> None:
        if not tokens:
            return
        now_s, metrics = time.monotonic(), self._service.metrics
        first = self.text.completion_tokens == 0
        gap_s = now_s - self._last_s
        if first:
            metrics.first_token_s.observe(now_s - self._arrived_s)
        else:
            metrics.token_gap_s.observe(gap_s / tokens)
        self._service.pace.came(self._request.id, tokens, None if first else gap_s)
        self._last_s = now_s

    def _finish(self, ended: Ended) -> None:
        metrics = self._service.metrics
        metrics.latency_s.observe(time.monotonic() - self._arrived_s)
        metrics.prompt_length.observe(len(self._request.prompt_ids))
        metrics.output_length.observe(self.text.completion_tokens)
        self.end(ended.finish_reason)


async def _next(outputs: Outputs) -> tuple[int, Output] | None:
    try:
        async with asyncio.timeout(KEEP_ALIVE_S):
            return await outputs.next()
    except TimeoutError:
        return None
