"""The device's runner behind the real scheduler, one step ahead, gives the tokens of the host's runner, whatever is asked."""

import pytest

from octavo_runtime.engine.pipeline import Runner
from octavo_runtime.engine.plan import StepPlan, StepResult
from octavo_runtime.messages import AddRequest, BeamSearch, Sampling
from octavo_runtime.model.decoder import Decoder
from tests.runtime.engine.tiny_engine import ask, prompt
from tests.runtime.gpu.devices import Sizes, answers, host_runner, inline_runner, random_decoder
from tests.runtime.gpu.inline_stream import InlineStream

SEEDED = Sampling(temperature=1.2, top_p=0.95, top_k=50, min_p=0.001)


def crowd() -> list[AddRequest]:
    """Four answers of 5 pages each, in the end."""
    return [
        ask(f"crowd {index}", prompt(f"crowd {index}", 10), SEEDED, max_tokens=60, seed=index) for index in range(4)
    ]


# A hundred answers of one token: longer ones are admitted as if they were as short, and run out of pages.
SHORT_ONES = [ask(f"short {index}", [index], max_tokens=1) for index in range(100)]


class Recorder:
    """A runner, with all that it was told and gave."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.depth = runner.depth
        self.plans: list[StepPlan] = []
        self.results: list[StepResult] = []

    def submit(self, plan: StepPlan) -> None:
        self.plans.append(plan)
        self._runner.submit(plan)

    def sample(self, step: int, masks: None = None) -> None:
        self._runner.sample(step, masks)

    def collect(self, step: int) -> StepResult:
        self.results.append(self._runner.collect(step))
        return self.results[-1]

    def reset(self) -> None:
        self._runner.reset()

    def abandon(self, step: int) -> None:
        self._runner.abandon(step)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return random_decoder()


def mixed() -> list[AddRequest]:
    """Prompts of several chunks beside decodes, one beginning that two share, all ways to draw, ends by id and by length."""
    shared = prompt("shared", 40)
    return [
        ask("greedy", prompt("a", 5), max_tokens=12),
        ask("long", prompt("b", 90), SEEDED, max_tokens=9, seed=2**64 - 1),
        ask("first of two", shared, max_tokens=10),
        ask("choices", prompt("d", 33), SEEDED, max_tokens=8, n=3, seed=2**64 - 2),
        ask("ends", prompt("e", 7), SEEDED, max_tokens=40, seed=5, stop_ids=list(range(0, 256, 5)), min_tokens=4),
        ask("second of two", [*shared, 7, 8, 9], SEEDED, max_tokens=10, seed=6),
        ask("beams", prompt("f", 20), max_tokens=6, n=2, beam=BeamSearch(3), eos_ids=[3]),
        ask("one", [9], max_tokens=1),
    ]


@pytest.mark.parametrize(
    ("sizes", "preempts", "warmed"),
    [
        pytest.param(Sizes(), False, False, id="not recorded"),
        pytest.param(Sizes(), False, True, id="recorded"),
        pytest.param(Sizes(pages=14), True, True, id="recorded, preempting"),
    ],
)
def test_gives_the_tokens_of_the_host_runner(decoder: Decoder, sizes: Sizes, preempts: bool, warmed: bool) -> None:
    requests = SHORT_ONES + crowd() if preempts else mixed()
    expected = answers(host_runner(decoder, sizes), requests, sizes)
    stream = InlineStream()
    runner = inline_runner(decoder, sizes, stream)
    if warmed:
        runner.warm_up()
        stream.replays = 0
    given = answers(runner, requests, sizes)
    assert given.tokens == expected.tokens
    assert (stream.replays > 10) == warmed
    assert given.most_in_flight == 2
    assert (given.preemptions > 0) == preempts


def test_gives_what_the_host_runner_gives_for_plans_with_evictions(decoder: Decoder) -> None:
    """The same plans on both: what pages get, and what is drawn from what is left."""
    sizes = Sizes()
    recorder = Recorder(host_runner(decoder, sizes))
    requests = [
        ask("a", prompt("a", 100), max_tokens=50, kv_budget_tokens=64),
        ask("b", prompt("b", 30), SEEDED, max_tokens=20),
        ask("c", prompt("c", 10), SEEDED, max_tokens=90, kv_budget_tokens=80, n=2),
    ]
    answers(recorder, requests, sizes)
    assert any(plan.evicted for plan in recorder.plans)
    runner = inline_runner(decoder, sizes)
    for plan, expected in zip(recorder.plans, recorder.results, strict=True):
        runner.submit(plan)
        runner.sample(plan.step)
        given = runner.collect(plan.step)
        assert given.drawn == expected.drawn
        assert [slot for slot, _ in given.masses] == [slot for slot, _ in expected.masses]
        for (_, mass), (_, other) in zip(given.masses, expected.masses, strict=True):
            assert mass == pytest.approx(other, abs=1e-5)
