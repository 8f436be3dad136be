"""How far one request to the engine is: the texts of its choices, and what is measured on the way.

A stop string ends a choice here, so the engine is told to end its sequence while the siblings go on; what it generated past one is
dropped.
"""

import time

from octavo_runtime.messages import AddRequest, ErrorKind, Output
from octavo_runtime.server.schema import Options
from octavo_runtime.server.sequence_text import Delta, SequenceText
from octavo_runtime.server.service import Service


class RequestProgress:
    """Feed it the request's outputs; `close` it whatever happens."""

    def __init__(self, service: Service, request: AddRequest, options: Options, arrived_s: float) -> None:
        self._service = service
        self._request = request
        self._arrived_s = arrived_s
        self.degraded: list[str] = []  # what a shortage of memory did to it, each thing once
        self._begun = False
        self._open = request.n
        most_tokens = request.max_tokens or service.engine_info().max_model_len
        self._choices = [
            _Choice(service, SequenceText(options, service.text.tokenizer), f"{request.id}/{index}", most_tokens)
            for index in range(request.n)
        ]

    @property
    def texts(self) -> list[SequenceText]:
        return [choice.text for choice in self._choices]

    def feed(self, output: Output) -> Delta | None:
        """What the output gives its choice; None for what still comes after a stop string has ended it."""
        choice = self._choices[output.index]
        if choice.ended:
            return None
        self._time_first(output)
        self.degraded += [one for one in output.degraded if one not in self.degraded]
        delta = choice.feed(output)
        if choice.text.stopped_here:
            self._service.engine.abort_sequence(output.id, output.index)
        if delta.ended is not None:
            choice.end(delta.ended.finish_reason)
            self._count_end(choice)
        return delta

    def fail(self, kind: ErrorKind) -> None:
        """The engine refused or lost the request; of a refused one no choice has begun, so none is counted as ended."""
        self._service.metrics.request_refused(kind)
        for choice in self._choices:
            choice.end("error" if kind == "failed" else None)

    def close(self) -> None:
        """The iteration is over: a choice that did not end was given up by the client."""
        for choice in self._choices:
            choice.end("abort")

    def _time_first(self, output: Output) -> None:
        if output.token_ids and not self._begun:
            self._begun = True
            self._service.metrics.first_token_s.observe(time.monotonic() - self._arrived_s)

    def _count_end(self, choice: "_Choice") -> None:
        """The lengths of a choice, and with the last one what the request has once."""
        metrics = self._service.metrics
        metrics.output_length.observe(choice.text.completion_tokens)
        self._open -= 1
        if self._open == 0:
            metrics.latency_s.observe(time.monotonic() - self._arrived_s)
            metrics.prompt_length.observe(len(self._request.prompt_ids))
            metrics.choices.observe(self._request.n)


class _Choice:
    """Text and pace of one sequence."""

    def __init__(self, service: Service, text: SequenceText, name: str, most_tokens: int) -> None:
        self.text = text
        self.ended = False
        self._service = service
        self._name = name
        self._last_s: float | None = None  # when its newest tokens came
        service.pace.expect(name, most_tokens)

    def feed(self, output: Output) -> Delta:
        if output.token_ids:
            self._time(len(output.token_ids))
        return self.text.feed(output)

    def end(self, reason: str | None) -> None:
        """Count the choice's end, once; without a reason it is not counted."""
        if not self.ended:
            self.ended = True
            if reason is not None:
                self._service.metrics.request_ended(reason)
            self._service.pace.forget(self._name)

    def _time(self, tokens: int) -> None:
        now_s = time.monotonic()
        gap_s = None if self._last_s is None else now_s - self._last_s
        if gap_s is not None:
            self._service.metrics.token_gap_s.observe(gap_s / tokens)
        self._service.pace.came(self._name, tokens, gap_s)
        self._last_s = now_s
