"""From a job to its answer: runs the requests on the engine and yields what each output gives the client."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncGenerator

from octavo_runtime.messages import AddRequest, Output
from octavo_runtime.server.engine_client import Outputs
from octavo_runtime.server.errors import from_engine
from octavo_runtime.server.progress import RequestProgress
from octavo_runtime.server.schema import Options
from octavo_runtime.server.sequence_text import Delta
from octavo_runtime.server.service import Service
from octavo_runtime.server.shapes import Shape, Usage

KEEP_ALIVE_S = 10.0


@dataclasses.dataclass(frozen=True)
class Job:
    """Requests for the engine (one a prompt), the options they came with, and the shape of the answer."""

    requests: list[AddRequest]
    options: Options
    shape: Shape

    @property
    def choices(self) -> int:
        """Answers in all: a choice's index is number of the prompt · n + index of the sequence."""
        return sum(request.n for request in self.requests)


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
        arrived_s = time.monotonic()
        self._prompts = [RequestProgress(service, request, job.options, arrived_s) for request in job.requests]

    async def pieces(self) -> AsyncGenerator[Piece | None, None]:
        """Text as it comes; None when nothing came for a while. Raises ApiError when the engine refuses or fails.

        Leaving the iteration early aborts what is not finished.
        """
        with self._service.engine.generate(self._job.requests) as outputs:
            try:
                open_choices = self._job.choices
                while open_choices:
                    arrived = await _next(outputs)
                    piece = None if arrived is None else self._feed(*arrived)
                    if piece is not None:
                        open_choices -= piece.delta.ended is not None
                    if piece is not None or arrived is None:
                        yield piece
            finally:
                for prompt in self._prompts:
                    prompt.close()

    def usage(self) -> Usage:
        """Each prompt counts once, each choice's tokens up to what ended it."""
        texts = [text for prompt in self._prompts for text in prompt.texts]
        return Usage(
            prompt_tokens=sum(len(request.prompt_ids) for request in self._job.requests),
            completion_tokens=sum(text.completion_tokens for text in texts),
            cached_tokens=sum(text.cached_tokens for text in texts),
            degraded=tuple(dict.fromkeys(one for prompt in self._prompts for one in prompt.degraded)),
        )

    def _feed(self, number: int, output: Output) -> Piece | None:
        """None for what a choice gets after its end."""
        prompt = self._prompts[number]
        if output.error is not None:
            prompt.fail(output.error.kind)
            raise from_engine(output.error)
        delta = prompt.feed(output)
        return None if delta is None else Piece(number * self._job.options.choices + output.index, delta)


async def _next(outputs: Outputs) -> tuple[int, Output] | None:
    try:
        async with asyncio.timeout(KEEP_ALIVE_S):
            return await outputs.next()
    except TimeoutError:
        return None
