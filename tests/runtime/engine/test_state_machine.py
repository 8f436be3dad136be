"""Everything at once, in any order: requests with choices, beams, priorities and deadlines come, are ended, run; time
passes; tiers keep pages, and spoil some.

After every step the books balance and the gauges tell the truth (the rig audits and looks that each sequence reads its own
history); in the end nothing is lost or left, and whoever was not ended has the answer that it would have had alone.
"""

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from octavo_runtime.messages import BeamSearch
from tests.runtime.engine.paper import Paper, alone
from tests.runtime.engine.paper_store import PaperStore

CONTEXT = 28
SEQS = 6
# Beginnings that prompts have in common, up to inside a page.
BASES = [[index % 5 for index in range(20)], [index % 3 + 5 for index in range(20)]]

_alone: dict[str, dict[str, list[int]]] = {}


def answer_alone(name: str, prompt: list[int], output: int, fields: dict[str, object]) -> dict[str, list[int]]:
    """By index ("" for the first); the same requests come again and again while an example is made smaller."""
    key = json.dumps([prompt, output, {field: repr(value) for field, value in sorted(fields.items())}])
    if key not in _alone:
        _alone[key] = {one[1:]: tokens for one, tokens in alone("x", prompt, output, CONTEXT, **fields).items()}
    return {name + one: tokens for one, tokens in _alone[key].items()}


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(
        pages=st.integers(7, 24),
        caching=st.booleans(),
        percent=st.sampled_from([30, 100]),
        misled=st.booleans(),
        depth=st.integers(0, 1),
        polls=st.sampled_from([None, 0, 2]),
    )
    def start(self, pages: int, caching: bool, percent: int, misled: bool, depth: int, polls: int | None) -> None:
        self.store = PaperStore(polls) if caching and polls is not None else None
        self.paper = Paper(
            pages,
            seqs=SEQS,
            budget=10,
            context=CONTEXT,
            caching=caching,
            depth=depth,
            store=self.store,
            prefill_percent=percent,
        )
        if misled:
            self.paper.mislead()
        self.asked: dict[str, tuple[list[int], int, dict[str, object]]] = {}
        self.aborted: set[str] = set()  # requests, and single choices
        self.timed_beams: set[str] = set()

    @rule(
        base=st.sampled_from(BASES),
        shared=st.integers(0, 14),
        own=st.lists(st.integers(0, 9), min_size=1, max_size=3),
        output=st.integers(1, 10),
        priority=st.sampled_from([0, 0, 0, -1, 1]),
        deadline_s=st.sampled_from([None, None, 3.0]),
        width=st.sampled_from([1, 1, 2, 4]),
        beams=st.booleans(),
        data=st.data(),
    )
    def submit(
        self,
        base: list[int],
        shared: int,
        own: list[int],
        output: int,
        priority: int,
        deadline_s: float | None,
        width: int,
        beams: bool,
        data: st.DataObject,
    ) -> None:
        fields: dict[str, object] = {
            "seed": data.draw(st.integers(0, 3)),
            "eos_ids": data.draw(st.sampled_from([[], [3]])),
        }
        fields |= {"n": data.draw(st.integers(1, width)), "beam": BeamSearch(width)} if beams else {"n": width}
        name, prompt = f"r{len(self.asked)}", [*base[:shared], *own]
        self.asked[name] = (prompt, output, fields)
        if beams and deadline_s is not None:
            self.timed_beams.add(name)
        self.paper.add(name, prompt, output, priority=priority, deadline_s=deadline_s, **fields)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.asked)))
        known = self.paper.scheduler.knows(name)
        assert self.paper.scheduler.abort([name]) == ([name] if known else [])
        if known:
            self.aborted.add(name)

    @precondition(lambda self: self.paper.running or self.paper.waiting)
    @rule(data=st.data())
    def cancel_one_choice(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted({*self.paper.running, *self.paper.waiting})))
        request, _, index = name.partition("/")
        if self.paper.scheduler.abort_sequences([(request, int(index or 0))]):
            assert name not in self.paper.running
            assert name not in self.paper.waiting
            self.aborted.add(f"{name} alone")

    @rule(count=st.integers(1, 4))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.paper.step()
            self.gauges_tell_the_truth()

    @precondition(lambda self: self.store is not None and self.store.contents)
    @rule(data=st.data())
    def spoil(self, data: st.DataObject) -> None:
        assert self.store is not None
        self.store.spoiled.add(data.draw(st.sampled_from(sorted(self.store.contents))))

    @rule(seconds=st.sampled_from([0.5, 2.0]))
    def advance(self, seconds: float) -> None:
        self.paper.now_s += seconds

    @invariant()
    def books_balance(self) -> None:
        if not hasattr(self, "paper"):
            return
        paper = self.paper
        paper.audit()
        assert len(paper.running) <= SEQS
        assert not set(paper.running) & set(paper.waiting)
        waiting = paper.scheduler.queued()
        assert waiting.sequences == len(paper.waiting)
        assert waiting.prompt_tokens >= 0
        assert waiting.prompt_tokens == 0 or paper.waiting

    def gauges_tell_the_truth(self) -> None:
        stats, pool, size = self.paper.stats, self.paper.scheduler.pool, self.paper.limits.page_size
        live = list(self.paper.scheduler._life.batch)
        held = {page for one in live for page in one.pages}
        filled = {(one.pages[at // size], at % size) for one in live for at in range(one.computed)}
        filled |= {(page, offset) for page in held for offset in range(pool.filled(page))}
        assert (stats.running, stats.waiting) == (len(live), len(self.paper.waiting))
        assert (stats.blocks_used, stats.slots_filled) == (len(held), len(filled))
        assert stats.blocks_used + stats.blocks_cached <= stats.blocks_total
        assert stats.predicted_deficit_blocks >= 0

    def teardown(self) -> None:
        if not hasattr(self, "paper"):
            return
        paper = self.paper
        paper.run(limit=2000)
        paper.step()
        stats = paper.stats
        assert (stats.running, stats.waiting, stats.blocks_used, stats.slots_filled) == (0, 0, 0, 0)
        assert (stats.predicted_peak_blocks, stats.predicted_deficit_blocks) == (0, 0)
        waiting = paper.scheduler.queued()
        assert (waiting.sequences, waiting.prompt_tokens) == (0, 0)
        for name, (prompt, output, fields) in self.asked.items():
            if name not in self.aborted:
                self.check(answer_alone(name, prompt, output, fields), name in self.timed_beams)

    def check(self, want: dict[str, list[int]], timed_beams: bool) -> None:
        """Each sequence ended once, with its answer: a part of it where its deadline came. Beams then give the best that they have,
        and that may be a text that was finished already, and would have been overtaken."""
        finished = self.paper.finished
        refused = next(iter(want)) in finished and finished[next(iter(want))].finish_reason == "error"
        for name, tokens in want.items():
            if f"{name} alone" in self.aborted or (refused and name not in finished):
                continue
            if timed_beams:
                assert name in finished
            elif finished[name].finish_reason in ("abort", "error"):
                assert self.paper.tokens[name] == tokens[: len(self.paper.tokens[name])]
            else:
                assert self.paper.tokens[name] == tokens


SchedulerMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestSchedulerMachine = SchedulerMachine.TestCase
