"""Where the time of Octavo's steps goes, on a CPU: products, head, attention, elementwise, sampling, Python, idle.

The engine's own border functions are wrapped for the length of a run and put back, so serving carries no measuring code. A phase
inside another pauses it; what is inside a closed one (the head's product) belongs to it. What is in no phase of a step is Python;
what is outside of all steps is idle.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from bench.serving_measure import SINGLE_OUTPUT_TOKENS, WARMUP_TOKENS
from bench.serving_octavo import generating
from bench.workload import mixed
from octavo_kernels import reference
from octavo_runtime.config import ServeConfig
from octavo_runtime.engine import runner
from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.llm import LLM
from octavo_runtime.engine.scheduler import Scheduler
from octavo_runtime.model.attention import AttentionBackend, AttentionMeta
from octavo_runtime.model.compute import Compute, Layers, LayerWeights
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.cpu_compute import CpuCompute
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.layers import LayerLoop
from octavo_runtime.model.rotary import Rotary

IDLE = "idle"
PYTHON = "Python: the rest"


@dataclasses.dataclass(frozen=True)
class Border:
    """`owner.attribute` is wrapped; a closed phase keeps the time of those inside."""

    owner: Any  # a class or a module
    attribute: str
    phase: str
    closed: bool = False


ENGINE_BORDERS = (
    Border(Engine, "step", PYTHON),
    Border(Scheduler, "plan", "Python: plan", closed=True),
    Border(runner.ModelRunner, "_batch", "Python: batch", closed=True),
    Border(Scheduler, "commit", "Python: commit", closed=True),
    Border(Decoder, "logits", "LM head", closed=True),
    Border(Decoder, "likeliest", "LM head", closed=True),
    Border(runner, "sample", "sampling", closed=True),
    Border(reference, "silu_mul", "elementwise", closed=True),
)


def model_borders(decoder: Decoder, backend: AttentionBackend) -> list[Border]:
    """Of whatever this machine computes with: compiled kernels or plain torch."""
    parts = vars(decoder)
    return [
        Border(type(parts["_head"]), "__call__", "GEMM"),
        Border(type(parts["_embedding"]), "rows", "elementwise", closed=True),
        Border(type(parts["_compute"]), "add_rms_norm", "elementwise", closed=True),
        Border(type(backend), "rotate_and_write", "elementwise", closed=True),
        Border(type(backend), "attend", "attention", closed=True),
    ]


class Clock:
    """Seconds and calls of each phase; time runs for the innermost one only."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s = now_s
        self._since_s = now_s()
        self._open: list[str] = [IDLE]
        self.seconds: dict[str, float] = {IDLE: 0.0}
        self.calls: dict[str, int] = {IDLE: 0}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.settle()
        self._open.append(name)
        self.calls[name] = self.calls.get(name, 0) + 1
        try:
            yield
        finally:
            self.settle()
            self._open.pop()

    def settle(self) -> None:
        """Book the time up to now."""
        now_s = self._now_s()
        self.seconds[self._open[-1]] = self.seconds.get(self._open[-1], 0.0) + now_s - self._since_s
        self._since_s = now_s


@contextlib.contextmanager
def measuring(borders: Sequence[Border]) -> Iterator[Clock]:
    """The borders, wrapped for the length of the block."""
    clock = Clock()
    within: list[Border] = []  # the closed phase that is open, if any
    with contextlib.ExitStack() as undo:
        for border in borders:
            timed = _wrapped(getattr(border.owner, border.attribute), border, clock, within)
            undo.enter_context(replaced(border.owner, border.attribute, timed))
        yield clock
        clock.settle()


def _wrapped(original: Callable[..., Any], border: Border, clock: Clock, within: list[Border]) -> Callable[..., Any]:
    def timed(*arguments: Any, **named: Any) -> Any:
        if within:
            return original(*arguments, **named)
        if border.closed:
            within.append(border)
        try:
            with clock.phase(border.phase):
                return original(*arguments, **named)
        finally:
            if border.closed:
                within.pop()

    return timed


def profile(model: Path, requests: int) -> str:
    """Both workloads, each as a table. The CPU kernels run layer by layer, for one call of all would show no phases."""
    with replaced(CpuCompute, "layers", _one_by_one):
        llm = LLM(ServeConfig(str(model), device="cpu"))
    generate = generating(llm)
    work = mixed(requests, vocab_size=llm.engine.info.vocab_size)
    with _seeing() as seen:
        generate([(work[0][0], WARMUP_TOKENS)], "warm-up")
    borders = [*ENGINE_BORDERS, *model_borders(*seen[0])]
    tables = []
    for name, part in ((f"{requests} requests", work), ("one stream", [(work[0][0], SINGLE_OUTPUT_TOKENS)])):
        with measuring(borders) as clock:
            tokens = generate(part, f"profile of {name}")
        tables.append(table(f"{name}, {tokens} tokens out", clock))
    return "\n\n".join(tables)


def _one_by_one(compute: Compute, config: ModelConfig, weights: Sequence[LayerWeights], rotary: Rotary) -> Layers:
    return LayerLoop(config, weights, rotary, compute)


@contextlib.contextmanager
def _seeing() -> Iterator[list[tuple[Decoder, AttentionBackend]]]:
    """Decoder and attention back end of each step in the block."""
    seen: list[tuple[Decoder, AttentionBackend]] = []
    original = Decoder.hidden

    def hidden(
        self: Decoder, ids: Tensor, meta: AttentionMeta, backend: AttentionBackend, pool: list[Tensor]
    ) -> Tensor:
        seen.append((self, backend))
        return original(self, ids, meta, backend, pool)

    with replaced(Decoder, "hidden", hidden):
        yield seen


@contextlib.contextmanager
def replaced(owner: Any, attribute: str, value: object) -> Iterator[None]:
    """`owner.attribute` is `value` in the block; afterwards as before, an inherited one inherited again."""
    own = attribute in vars(owner)
    original = getattr(owner, attribute)
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, attribute, original)
        else:
            delattr(owner, attribute)


def table(title: str, clock: Clock) -> str:
    """Phases by their time: share of the run, seconds, milliseconds a step, calls a step."""
    total_s, steps = sum(clock.seconds.values()), max(1, clock.calls.get(PYTHON, 0))
    rows = [
        f"{title}: {total_s:.2f} s, {steps} steps",
        f"{'phase':<18} {'share':>7} {'s':>8} {'ms/step':>9} {'calls/step':>11}",
    ]
    for phase, seconds in sorted(clock.seconds.items(), key=lambda item: -item[1]):
        calls = clock.calls[phase] / steps
        rows.append(
            f"{phase:<18} {seconds / total_s:>7.1%} {seconds:>8.2f} {1e3 * seconds / steps:>9.2f} {calls:>11.1f}"
        )
    return "\n".join(rows)
