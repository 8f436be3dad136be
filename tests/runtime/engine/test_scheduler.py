"""What runs in a step: one budget, decodes first, prompts in chunks; preemption that never livelocks.

The scheduler alone: the tokens that a model would draw are made up here, everything else is the real thing.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_runtime.engine.admission import Limits, refusal
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.plan import StepPlan, StepResult
from octavo_runtime.engine.scheduler import Scheduler
from octavo_runtime.messages import AddRequest, Output, Sampling, Stats

TOKEN = 7
EOS = 2


class Bench:
    """A scheduler whose model always draws `TOKEN`, with the runner's slot table beside it to check plans against."""

    def __init__(self, pages: int = 64, page_size: int = 4, seqs: int = 8, budget: int = 16, context: int = 64) -> None:
        self.limits = Limits(context, pages, page_size, vocab_size=10, max_queued=1000)
        self.scheduler = Scheduler(BlockPool(pages, page_size), self.limits, seqs, budget)
        self.budget, self.seqs = budget, seqs
        self.slots: dict[int, tuple[int, list[int]]] = {}  # slot → (tokens known, pages)
        self.finished: dict[str, str] = {}
        self.tokens: dict[str, int] = {}
        self.plans: list[StepPlan] = []
        self.stats = Stats(0, 0, pages, 0, 0, 0, 0, 0, 0, 0, 0.0, 0)

    def add(self, name: str, prompt: int, output: int | None = None, **fields: object) -> None:
        request = AddRequest(name, [1] * prompt, Sampling(temperature=0.0), 0, max_tokens=output, **fields)  # type: ignore[arg-type]
        assert refusal(request, self.limits, self.scheduler.queued) is None
        self.scheduler.add(request)

    def step(self, token: int = TOKEN) -> StepPlan | None:
        plan = self.scheduler.plan()
        self.scheduler.audit()
        if plan is None:
            outputs, self.stats = self.scheduler.take_ended(0.0)
        else:
            self._apply(plan)
            outputs, self.stats = self.scheduler.commit(StepResult(plan.step, self._draw(plan, token)), 0.0)
            self.plans.append(plan)
        self.scheduler.audit()
        self._take(outputs)
        return plan

    def run(self, limit: int = 2000) -> None:
        steps = 0
        while self.scheduler.has_work or self.scheduler.has_ended:
            self.step()
            steps += 1
            assert steps < limit, "the scheduler does not come to an end"

    def _apply(self, plan: StepPlan) -> None:
        """What the runner does with a plan; every run must be backed by tokens and pages it was told of."""
        assert 0 < plan.tokens <= self.budget
        assert len(plan.run) <= self.seqs
        for slot in plan.dropped:
            del self.slots[slot]
        for entry in plan.new:
            self.slots[entry.slot] = (len(entry.tokens), list(entry.pages))
        for slot, pages in plan.grown:
            self.slots[slot][1].extend(pages)
        written = []
        for run in plan.run:
            known, pages = self.slots[run.slot]
            assert run.start + run.count <= known
            assert run.start + run.count <= len(pages) * self.limits.page_size
            written += pages[run.start // self.limits.page_size : -(-(run.start + run.count) // self.limits.page_size)]
        assert len(written) == len(set(written)), "two sequences write one page in a step"

    def _draw(self, plan: StepPlan, token: int) -> list[tuple[int, int]]:
        drawn = []
        for run in plan.run:
            known, pages = self.slots[run.slot]
            if run.start + run.count == known:
                self.slots[run.slot] = (known + 1, pages)
                drawn.append((run.slot, token))
        return drawn

    def _take(self, outputs: list[Output]) -> None:
        for output in outputs:
            assert output.id not in self.finished
            self.tokens[output.id] = self.tokens.get(output.id, 0) + len(output.token_ids)
            if output.finish_reason is not None:
                self.finished[output.id] = output.finish_reason


def counts(plan: StepPlan | None) -> list[int]:
    return [run.count for run in plan.run] if plan else []


def test_a_long_prompt_comes_in_chunks_beside_decodes() -> None:
    bench = Bench(budget=16)
    bench.add("short", prompt=3, output=20)
    assert counts(bench.step()) == [3]
    bench.add("long", prompt=40, output=2)
    assert [counts(bench.step()) for _ in range(4)] == [[1, 15], [1, 15], [1, 10], [1, 1]]


def test_prompts_share_the_budget_in_order_of_arrival() -> None:
    bench = Bench(budget=16)
    for name, prompt in (("a", 10), ("b", 10), ("c", 10)):
        bench.add(name, prompt, output=3)
    assert counts(bench.step()) == [10, 6]
    assert counts(bench.step()) == [1, 4, 10]


def test_runs_no_more_sequences_than_there_are_slots() -> None:
    bench = Bench(seqs=2)
    for name in "abc":
        bench.add(name, prompt=2, output=2)
    bench.step()
    assert (bench.stats.running, bench.stats.waiting) == (2, 1)
    bench.run()
    assert set(bench.finished) == {"a", "b", "c"}


def test_ends_on_eos_on_stop_ids_and_on_length() -> None:
    bench = Bench(context=12)
    bench.add("eos", 2, output=9, eos_ids=[TOKEN])
    bench.add("stop", 2, output=9, stop_ids=[TOKEN])
    bench.add("late", 2, output=9, eos_ids=[TOKEN], min_tokens=3)
    bench.add("length", 2, output=5)
    bench.add("context", 2)
    bench.run()
    assert bench.finished == {"eos": "stop", "stop": "stop", "late": "stop", "length": "length", "context": "length"}
    assert bench.tokens == {"eos": 1, "stop": 1, "late": 3, "length": 5, "context": 10}


def test_leaves_nothing_behind() -> None:
    bench = Bench()
    for index in range(20):
        bench.add(str(index), prompt=1 + index, output=1 + index % 5)
    bench.run()
    assert len(bench.finished) == 20
    assert (bench.stats.running, bench.stats.waiting, bench.stats.blocks_used, bench.stats.slots_filled) == (0, 0, 0, 0)


def test_preempts_the_sequence_that_loses_least_when_pages_run_out() -> None:
    bench = Bench(pages=6, page_size=4)
    bench.add("old", prompt=8, output=16)
    bench.add("young", prompt=4, output=8)
    bench.run()
    assert bench.finished == {"old": "length", "young": "length"}
    assert bench.tokens == {"old": 16, "young": 8}
    assert bench.stats.preemptions_total > 0


def test_a_preempted_sequence_keeps_what_it_generated() -> None:
    bench = Bench(pages=6, page_size=4)
    bench.add("old", prompt=8, output=16)
    bench.add("young", prompt=4, output=8)
    while bench.stats.preemptions_total == 0:
        bench.step()
    before = bench.tokens["young"]
    bench.run()
    again = next(entry for plan in bench.plans[1:] for entry in plan.new)
    assert len(again.tokens) == 4 + before


def test_the_last_sequence_ends_with_length_when_it_fills_the_pool() -> None:
    bench = Bench(pages=3, page_size=4, context=64)
    bench.add("open", prompt=6)
    bench.run()
    assert bench.finished == {"open": "length"}
    assert bench.tokens["open"] == 7  # 12 slots hold 6 + 6 tokens; the last one drawn needs none


def test_aborts_in_every_state_return_all_pages() -> None:
    bench = Bench(seqs=2, budget=8)
    for name in ("decoding", "prefilling", "waiting"):
        bench.add(name, prompt=3 if name == "decoding" else 20, output=9)
    bench.step()
    assert sorted(bench.scheduler.abort(["decoding", "prefilling", "waiting", "unknown"])) == [
        "decoding",
        "prefilling",
        "waiting",
    ]
    bench.step()
    assert bench.stats.blocks_used == 0
    assert not bench.scheduler.has_work
    bench.add("next", prompt=3, output=2)
    bench.run()
    assert bench.finished == {"next": "length"}


@settings(max_examples=60, deadline=None)
@given(
    pages=st.integers(4, 24),
    requests=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=24),
    seqs=st.integers(1, 8),
    budget=st.integers(8, 24),
    aborts=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 23)), max_size=6),
)
def test_every_request_finishes_or_was_aborted(
    pages: int, requests: list[tuple[int, int]], seqs: int, budget: int, aborts: list[tuple[int, int]]
) -> None:
    """Whatever the load (up to many times the pool), nothing is lost, stuck or leaked."""
    bench = Bench(pages=pages, seqs=seqs, budget=budget)
    fitting = {str(i): entry for i, entry in enumerate(requests) if sum(entry) <= pages * 4}
    for name, (prompt, output) in fitting.items():
        bench.add(name, prompt, output)
    gone: set[str] = set()
    for step in range(41):
        gone.update(name for at, index in aborts if at == step for name in bench.scheduler.abort([str(index)]))
        bench.step()
    bench.run()
    assert set(bench.finished) | gone == set(fitting)
    assert not set(bench.finished) & gone
    assert all(bench.tokens[name] == fitting[name][1] for name in bench.finished)
    assert bench.stats.blocks_used == 0
