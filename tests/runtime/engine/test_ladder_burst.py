"""The same burst with the memory ladder and without, on paper: what requests pay for it. `bench ladder` asks real servers."""

import dataclasses
import heapq
import random
import statistics
from collections.abc import Callable

import pytest

from octavo_runtime.engine.admission import refusal
from octavo_runtime.engine.pressure import Means
from octavo_runtime.messages import AddRequest
from tests.runtime.engine.paper import GREEDY, Paper

PAGES, PAGE_SIZE = 34, 16
CAPACITY = PAGES * PAGE_SIZE
PROMPT, SHORT = CAPACITY // 24, CAPACITY // 48
STEP_S, TOKEN_S = 0.025, 0.002  # what a step and each of its tokens take
COMES_BACK_S = 5.0  # after a refusal, at most


@dataclasses.dataclass(frozen=True)
class Wanted:
    arrives_s: float
    request: AddRequest


@dataclasses.dataclass
class Burst:
    """When each request came and ended, and what it took."""

    wanted: dict[str, Wanted]
    ended_s: dict[str, float] = dataclasses.field(default_factory=dict)
    refusals: int = 0
    preemptions: int = 0

    @property
    def latencies(self) -> list[float]:
        return sorted(ended_s - self.wanted[name].arrives_s for name, ended_s in self.ended_s.items())

    @property
    def late(self) -> float:
        return self.latencies[int(0.95 * len(self.latencies))]


def wanted(pools: int, within_s: float, seed: int) -> dict[str, Wanted]:
    """So many pools full of requests: nine in ten are short, one in ten generates ten times as much."""
    chance, tokens, found = random.Random(seed), 0, dict[str, Wanted]()
    while tokens < pools * CAPACITY:
        length = chance.randint(PROMPT // 2, 2 * PROMPT)
        output = chance.randint(SHORT // 2, 2 * SHORT) * (10 if chance.random() < 0.1 else 1)
        name, ids = f"r{len(found)}", chance.choices(range(10), k=length)
        found[name] = Wanted(within_s * chance.random(), AddRequest(name, ids, GREEDY, 0, max_tokens=output))
        tokens += length + output
    return found


def ran(pools: int, within_s: float, seed: int, ladder: bool) -> Burst:
    """The burst, to its end."""
    paper = Paper(PAGES, PAGE_SIZE, seqs=128, budget=256, context=CAPACITY, ladder=Means() if ladder else None)
    lengths = paper.scheduler._entrance.peak.lengths
    for length in random.Random(seed).choices(range(SHORT // 2, 2 * SHORT), k=100):
        lengths.record(length)
    burst = Burst(wanted(pools, within_s, seed))
    coming = [(one.arrives_s, name) for name, one in burst.wanted.items()]
    heapq.heapify(coming)
    while coming or not paper.idle:
        while coming and coming[0][0] <= paper.now_s:
            _, name = heapq.heappop(coming)
            request, queued = burst.wanted[name].request, paper.scheduler.queued()
            refused = refusal(request, paper.limits, queued)
            if refused is None:
                paper.scheduler.add(request)
                continue
            assert refused.retry_after_s is not None
            burst.refusals += 1
            heapq.heappush(coming, (paper.now_s + min(COMES_BACK_S, refused.retry_after_s), name))
        plan = paper.step()
        paper.now_s += STEP_S + TOKEN_S * plan.tokens if plan is not None else STEP_S
        for name in paper.finished:
            burst.ended_s.setdefault(name, paper.now_s)
    burst.preemptions = paper.stats.preemptions_total
    return burst


def total(bursts: list[Burst], of: Callable[[Burst], float]) -> float:
    return sum(map(of, bursts))


@pytest.mark.parametrize(
    ("pools", "seeds", "slack"),
    [
        pytest.param(4, (0, 1, 2), 1.02, id="four pools: costs nothing"),
        pytest.param(10, (0, 2), 0.98, id="ten pools: pays"),
    ],
)
def test_requests_are_answered_no_later_than_without(pools: int, seeds: tuple[int, ...], slack: float) -> None:
    """Level 3 holds new prompts back so that others end: a later first token, and an end that is hardly later at worst."""
    with_it, without = ([ran(pools, 2.0, seed, ladder) for seed in seeds] for ladder in (True, False))
    for burst in (*with_it, *without):
        assert set(burst.ended_s) == set(burst.wanted)
    assert total(with_it, lambda one: one.preemptions) < total(without, lambda one: one.preemptions)
    for of in (
        lambda one: statistics.median(one.latencies),
        lambda one: statistics.mean(one.latencies),
        lambda one: one.late,
        lambda one: one.latencies[-1],
    ):
        assert total(with_it, of) <= slack * total(without, of)
