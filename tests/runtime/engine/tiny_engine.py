"""Engines on the tiny seeded model of `tests.runtime.models`, requests for them, and a loop that audits every step."""

import contextlib
import dataclasses
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.core import Engine
from octavo_runtime.messages import AddRequest, FinishReason, Output, Sampling, Stats, StepOutputs

GREEDY = Sampling(temperature=0.0)
SEEDED = Sampling(temperature=0.9, top_p=0.95)
PAGE = 16
_TOKEN_BYTES = 2 * 2 * 2 * 16 * 4  # layers, keys and values, KV heads, head width, fp32

MakeEngine = Callable[..., Engine]


def make_engine(model: Path, pages: int = 256, **flags: object) -> Engine:
    """`pages` is what requests can have, of the page size in `flags` or 16. Not warmed."""
    size = int(str(flags.setdefault("block_size", str(PAGE))))
    memory = (pages + 1) * size * _TOKEN_BYTES
    config = ServeConfig(str(model), dtype="float32", kv_cache_memory=memory, **flags)  # type: ignore[arg-type]  # a table
    with _one_cpu():
        return Engine(config)


@contextlib.contextmanager
def _one_cpu() -> Iterator[None]:
    """The engine takes a thread for each CPU. Products are tiny here: threads that wait for each other take five times as long."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def prompt(name: str, length: int) -> list[int]:
    """Ids that depend on the name and the place alone: of two lengths, the shorter is the longer's beginning."""
    source = random.Random(name)
    return [source.randrange(256) for _ in range(length)]


def ask(
    name: str, ids: list[int], sampling: Sampling = GREEDY, max_tokens: int | None = 16, **fields: object
) -> AddRequest:
    return AddRequest(name, ids, sampling, max_tokens=max_tokens, **{"seed": 0, **fields})  # type: ignore[arg-type]  # a table


@dataclasses.dataclass
class Answers:
    """What came out, by request and index, and the counts after each step."""

    tokens: dict[tuple[str, int], list[int]] = dataclasses.field(default_factory=dict)
    reasons: dict[tuple[str, int], FinishReason] = dataclasses.field(default_factory=dict)
    ends: dict[tuple[str, int], Output] = dataclasses.field(default_factory=dict)
    cached: dict[str, int] = dataclasses.field(default_factory=dict)
    steps: list[Stats] = dataclasses.field(default_factory=list)

    def take(self, outputs: StepOutputs) -> None:
        self.steps.append(outputs.stats)
        for output in outputs.outputs:
            key = output.id, output.index
            assert key not in self.ends, "an output after the end"
            self.tokens.setdefault(key, []).extend(output.token_ids)
            self.cached[output.id] = self.cached.get(output.id, 0) + output.cached_tokens
            if output.finish_reason is not None:
                self.ends[key], self.reasons[key] = output, output.finish_reason

    def of(self, name: str) -> list[list[int]]:
        """A request's sequences by index."""
        return [tokens for (one, _), tokens in sorted(self.tokens.items()) if one == name]


def step(engine: Engine, answers: Answers) -> bool:
    """One audited step; whether there was anything."""
    outputs = engine.step()
    engine.scheduler.audit()
    engine.scheduler.pool.check_balance()
    if outputs is not None:
        answers.take(outputs)
    return outputs is not None


def finish(engine: Engine, requests: list[AddRequest]) -> Answers:
    """These requests, and whatever else the engine has, to the end; nothing may stay behind."""
    answers = Answers()
    for request in requests:
        engine.add(request)
    while step(engine, answers) or engine.scheduler.gathering_s() > 0:
        time.sleep(engine.scheduler.gathering_s())  # nothing runs while pages come from a tier
    assert not engine.scheduler.has_work
    assert_idle(engine)
    return answers


def assert_idle(engine: Engine) -> None:
    pool = engine.scheduler.pool
    assert (pool.used, pool.free, engine.scheduler.queued().sequences) == (0, pool.total, 0)


def make_outputs_look_short(engine: Engine) -> None:
    """A hundred answers of one token: longer ones are admitted as if they were as short, and run out of pages."""
    finish(engine, [ask(f"short {index}", [index], max_tokens=1) for index in range(100)])


class Alone:
    """Answers of requests that had an engine without a prefix cache to themselves."""

    def __init__(self, new_engine: MakeEngine) -> None:
        self._engine = new_engine(prefix_caching=False)
        self._known: dict[bytes, list[int]] = {}

    def __call__(self, request: AddRequest) -> list[int]:
        key = msgspec.msgpack.encode(request)
        if key not in self._known:
            self._known[key] = finish(self._engine, [request]).of(request.id)[0]
        return self._known[key]
