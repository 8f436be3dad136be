"""Drives an engine through a load and keeps what every step told.

Open loop: a request arrives at its time whether or not the engine keeps up, and its latency counts from there. With `static_batch`
the same engine is used as a static batcher uses a model: up to that many of the waiting requests at once, nothing more until all
of them are done.
"""

import collections
import time
from collections.abc import Iterable, Sequence

from bench.seeds.trace import Answer, Arrival, Step, Trace
from bench.workload import Request
from octavo_runtime.engine.core import Engine
from octavo_runtime.messages import AddRequest, Output, Sampling

_POLL_S = 0.001


def greedy(name: str, work: Request) -> AddRequest:
    prompt_ids, output_tokens = work
    return AddRequest(name, prompt_ids, Sampling(temperature=0.0), seed=0, max_tokens=output_tokens)


def at_once(work: Sequence[Request]) -> list[Arrival]:
    return [Arrival(0.0, greedy(str(index), request)) for index, request in enumerate(work)]


def arriving(work: Sequence[Request], times_s: Sequence[float]) -> list[Arrival]:
    return [
        Arrival(at_s, greedy(str(index), request))
        for index, (request, at_s) in enumerate(zip(work, times_s, strict=True))
    ]


def drive(engine: Engine, load: Iterable[Arrival], static_batch: int | None = None, until: str | None = None) -> Trace:
    """Run `load` to its end, or to the first token of the request `until`. Raises RuntimeError if the engine refuses a request."""
    coming = collections.deque(sorted(load, key=lambda arrival: arrival.at_s))
    trace, live, batch = Trace(), set[str](), list[str]()
    started_s = time.monotonic()
    while coming or live:
        now_s = time.monotonic() - started_s
        if not live:
            _answer(trace, batch, now_s)
        room = static_room(static_batch, len(live))
        while coming and coming[0].at_s <= now_s and room > 0:
            arrival = coming.popleft()
            engine.add(arrival.request)
            trace.answers[arrival.request.id] = Answer(arrival.at_s)
            live.add(arrival.request.id)
            batch.append(arrival.request.id)
            room -= 1
        outputs = engine.step() if live else None
        if outputs is None:
            time.sleep(_POLL_S if live else max(0.0, coming[0].at_s - now_s))
            continue
        at_s = time.monotonic() - started_s
        trace.steps.append(Step(at_s, outputs.stats))
        for output in outputs.outputs:
            _take(trace, live, output, at_s, static=static_batch is not None)
        if until in trace.answers and trace.answers[until].token_s:
            engine.abort(list(live))
            engine.changes()  # told here, not to the next load
            break
    _answer(trace, batch, time.monotonic() - started_s)
    return trace


def static_room(static_batch: int | None, live: int) -> int:
    """How many requests may enter: all, or a whole batch once nothing is live."""
    if static_batch is None:
        return 1 << 30
    return 0 if live else static_batch


def _take(trace: Trace, live: set[str], output: Output, at_s: float, static: bool) -> None:
    if output.error is not None:
        raise RuntimeError(f"request {output.id} was refused: {output.error.message}")
    answer = trace.answers[output.id]
    answer.token_s += [at_s] * len(output.token_ids)
    if output.finish_reason is not None:
        answer.finished_s = at_s
        if not static:
            answer.answered_s = at_s
        live.discard(output.id)


def _answer(trace: Trace, batch: list[str], at_s: float) -> None:
    """A static batch is answered as a whole."""
    for name in batch:
        answer = trace.answers[name]
        answer.answered_s = answer.answered_s or at_s
    batch.clear()
