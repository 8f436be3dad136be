"""The steps in flight: what each of them computes and for whom, from its plan until it is collected.

Between the two a sequence may have ended; what the step did for it is dropped. Pages and slots that it still needs are fenced.
"""

import collections
import dataclasses

from octavo_runtime.engine.block_pool import PoolError
from octavo_runtime.engine.counts import first_time_prompt_tokens
from octavo_runtime.engine.lifecycle import Lifecycle
from octavo_runtime.engine.plan import Drawn, Run, StepPlan, StepResult
from octavo_runtime.engine.request import Sequence, State
from octavo_runtime.engine.selective import weighed

Runs = dict[Sequence, Run]
Tables = dict[Sequence, tuple[int, ...]]


@dataclasses.dataclass
class Landed:
    """What a collected step did for the sequences that are still there: tokens of each, draws."""

    counts: list[int] = dataclasses.field(default_factory=list)
    prompt_tokens: int = 0  # that were computed for the first time
    draws: list[tuple[Sequence, Drawn]] = dataclasses.field(default_factory=list)


class Flight:
    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self._step = 0
        self._flying: collections.deque[tuple[int, Runs, Tables]] = collections.deque()  # oldest first
        self._newest: Runs = {}  # what was planned last, until something else happens

    def __len__(self) -> int:
        return len(self._flying)

    @property
    def decides(self) -> bool:
        """Whether a step draws for beams or for several choices: which sequences there are depends on that."""
        return any(
            one.drawing and (one.choices > 1 or one.request.asked.beam is not None)
            for _, runs, _ in self._flying
            for one in runs
        )

    def begin(self, counts: dict[Sequence, int]) -> StepPlan:
        """The step that computes so many more tokens of each, in flight from now on."""
        self._step += 1
        differences = self._life.batch.differences()
        self._newest = {}
        for sequence, count in counts.items():
            self._newest[sequence] = Run(sequence.slot, sequence.submitted, count)
            sequence.submit(count)
        tables = {one: tuple(one.pages) for one in counts if one.request.kv_budget is not None}
        self._flying.append((self._step, self._newest, tables))
        copies = self._life.planned(self._step)
        return StepPlan(
            step=self._step,
            new=differences.new,
            grown=differences.grown,
            dropped=differences.dropped,
            run=list(self._newest.values()),
            copies=copies,
            transfers=[],
            evicted=differences.evicted,
            reformed=self._life.pool.take_reformed(),
        )

    def land(self, result: StepResult) -> Landed:
        """Take the oldest step, collected, into the books."""
        step, runs, tables = self._flying.popleft()
        assert step == result.step
        self.changed()
        self._life.collected(step)
        drawn = {draw.slot: draw for draw in result.drawn}
        masses = dict(result.masses)
        landed = Landed()
        for sequence, run in runs.items():
            if sequence.state is State.FINISHED:
                continue
            landed.counts.append(run.count)
            if not sequence.generated:
                landed.prompt_tokens += first_time_prompt_tokens(sequence, run.count)
            self._life.tables.computed(sequence, run.count)
            if sequence in tables:
                sequence.weights = weighed(sequence.weights, tables[sequence], masses[run.slot], run.count)
            draw = drawn.get(run.slot)
            if draw is not None:
                sequence.drawing -= 1
                landed.draws.append((sequence, draw))
        return landed

    def undo(self) -> int:
        """The step planned last, the only one in flight, could not be run: nothing was computed or drawn. How many tokens it had.

        The runner knows nothing any more. Who was to begin with a copy of a page is preempted: what it was to be copied from may
        have been given to others.
        """
        step, runs, _ = self._flying.pop()
        assert not self._flying
        self.changed()
        for sequence in self._life.batch:
            sequence.submitted, sequence.drawing = sequence.computed, 0
        for sequence in self._life.tables.copied_in(step):
            if sequence.state is State.RUNNING:
                self._life.preempt(sequence)
        self._life.batch.forget()
        self._life.collected(step)
        return sum(run.count for run in runs.values())

    def changed(self) -> None:
        """Tables may change: what the newest step writes is not what `audit` can look for any more."""
        self._newest = {}

    def audit(self) -> None:
        """Raise PoolError unless the pool's books and the tables agree and the step planned last writes nothing shared."""
        pool = self._life.pool
        pool.audit([*(sequence.pages for sequence in self._life.batch), *self._life.held()])
        for sequence, run in self._newest.items():
            start, size = run.start - sequence.evicted, pool.page_size * sequence.page_factor
            for place in range(start // size, pool.pages_for(start + run.count, sequence.page_factor)):
                if not pool.writable(sequence.pages[place], max(0, start - place * size)):
                    raise PoolError(f"page {sequence.pages[place]} would be written while others read it")
