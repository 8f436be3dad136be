"""Which tokens are computed in the next step.

One token budget a step: every decoding sequence gets its token first, what is left goes to prompts in order of arrival, in
chunks. A waiting sequence is admitted when a slot is free and the pool holds its whole prompt and one page for each sequence that
runs already. A decode without a page preempts the sequence that loses least (never the oldest one, so the oldest always finishes):
its pages return and it waits at the front, to be computed again.

`plan` changes slots and pages; what was computed changes at `commit` only.
"""

import bisect

from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.plan import NewSlot, Run, StepPlan, StepResult
from octavo_runtime.engine.request import Sequence, State
from octavo_runtime.messages import AddRequest, FinishReason, Output, Stats


class Scheduler:
    def __init__(self, pool: BlockPool, limits: Limits, max_num_seqs: int, max_num_batched_tokens: int) -> None:
        self.pool = pool
        self._limits = limits
        self._budget = max_num_batched_tokens
        self._free_slots = list(range(max_num_seqs - 1, -1, -1))
        self._waiting: list[Sequence] = []  # by arrival
        self._running: list[Sequence] = []  # by arrival
        self._arrivals = 0
        self._step = 0
        self._preemptions = 0
        self._planned: list[tuple[Sequence, int]] = []  # (sequence, tokens) of the step in flight
        self._grown: list[tuple[int, list[int]]] = []  # (slot, pages) that the next plan tells
        self._dropped: list[int] = []  # slots that the next plan drops
        self._ended: list[Output] = []  # endings that no step gave

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._running)

    @property
    def has_ended(self) -> bool:
        """Endings wait that no step gave: `take_ended`."""
        return bool(self._ended)

    def add(self, request: AddRequest) -> None:
        """Let an admitted request (see `admission.refusal`) wait for its turn."""
        self._arrivals += 1
        self._waiting.append(Sequence.of(request, self._arrivals))

    def abort(self, ids: list[str]) -> list[str]:
        """End these requests and release their pages; no step may be in flight. Returns the ids that were known."""
        assert not self._planned
        wanted = set(ids)
        gone = [sequence for sequence in [*self._waiting, *self._running] if sequence.request.id in wanted]
        for sequence in gone:
            self._leave(sequence)
            sequence.state = State.FINISHED
        return [sequence.request.id for sequence in gone]

    def plan(self) -> StepPlan | None:
        """The next step, or None when nothing can run."""
        budget = self._plan_decodes()
        budget = self._plan_prefills(budget)
        new = self._admit(budget)
        if not self._planned:
            return None
        self._step += 1
        # A slot that was given up and taken again within this plan is new, not dropped.
        taken = {entry.slot for entry in new}
        dropped = [slot for slot in self._dropped if slot not in taken]
        grown, self._grown, self._dropped = self._grown, [], []
        run = [Run(sequence.slot, sequence.computed, count) for sequence, count in self._planned]
        return StepPlan(self._step, new, grown, dropped, run, [], [])

    def commit(self, result: StepResult, busy_s_total: float) -> tuple[list[Output], Stats]:
        """Take a collected step into the books: what was computed and drawn, who finished."""
        drawn = dict(result.drawn)
        planned, self._planned = self._planned, []
        prompt_tokens = 0
        outputs = self._ended
        self._ended = []
        for sequence, count in planned:
            sequence.computed += count
            fresh = min(sequence.computed, sequence.prompt_length) - sequence.computed_once
            prompt_tokens += max(0, fresh)
            sequence.computed_once = max(sequence.computed_once, sequence.computed)
            if sequence.slot in drawn:
                outputs.append(self._accept(sequence, drawn[sequence.slot]))
        stats = Stats(
            running=len(self._running),
            waiting=len(self._waiting),
            blocks_total=self.pool.total,
            blocks_used=self.pool.used,
            blocks_cached=0,
            slots_filled=sum(sequence.computed for sequence in self._running),
            batch_size=len(planned),
            step_tokens=sum(count for _, count in planned),
            step_prompt_tokens=prompt_tokens,
            step_generated_tokens=len(drawn),
            busy_s_total=busy_s_total,
            preemptions_total=self._preemptions,
        )
        return outputs, stats

    def take_ended(self, busy_s_total: float) -> tuple[list[Output], Stats]:
        """Endings and counts when no step ran, after aborts or when a sequence outgrew the pool."""
        return self.commit(StepResult(self._step, []), busy_s_total)

    def audit(self) -> None:
        """Raise PoolError unless the pool's books and the sequences' tables agree."""
        self.pool.audit(sequence.pages for sequence in [*self._running, *self._waiting])

    def _accept(self, sequence: Sequence, token: int) -> Output:
        finish, stop = sequence.accept(token, self._limits.max_model_len)
        if finish is not None:
            self._finish(sequence)
        return Output(sequence.request.id, [token], finish_reason=finish, stop_reason=stop)

    def _finish(self, sequence: Sequence) -> None:
        self._leave(sequence)
        sequence.state = State.FINISHED

    def _plan_decodes(self) -> int:
        """Plan one token for each decoding sequence; returns the budget left for prompts."""
        for sequence in list(self._running):
            if sequence.state is not State.RUNNING or not sequence.decoding:
                continue
            if self._grow(sequence):
                self._planned.append((sequence, 1))
        return self._budget - len(self._planned)

    def _grow(self, sequence: Sequence) -> bool:
        """Make sure that the next token has a slot, preempting others if need be; False if the sequence had to yield."""
        if len(sequence.tokens) <= len(sequence.pages) * self.pool.page_size:
            return True
        while (pages := self.pool.take(1)) is None:
            victim = self._victim()
            if victim is None:
                self._outgrow(sequence, "length")
                return False
            self._preempt(victim)
            if victim is sequence:
                return False
        sequence.pages += pages
        self._grown.append((sequence.slot, pages))
        return True

    def _victim(self) -> Sequence | None:
        """The running sequence with the fewest computed tokens to lose, the youngest of equals; never the oldest."""
        oldest = min(self._running, key=lambda sequence: sequence.arrival)
        others = [sequence for sequence in self._running if sequence is not oldest]
        return min(others, key=lambda sequence: (sequence.computed, -sequence.arrival), default=None)

    def _preempt(self, sequence: Sequence) -> None:
        self._planned = [entry for entry in self._planned if entry[0] is not sequence]
        self._leave(sequence)
        sequence.state, sequence.computed = State.WAITING, 0
        bisect.insort(self._waiting, sequence, key=lambda other: other.arrival)
        self._preemptions += 1

    def _outgrow(self, sequence: Sequence, reason: FinishReason) -> None:
        """The oldest sequence, alone, fills the whole pool: it ends here."""
        self._finish(sequence)
        self._ended.append(Output(sequence.request.id, finish_reason=reason))

    def _plan_prefills(self, budget: int) -> int:
        """Go on with prompts that are partly computed."""
        for sequence in self._running:
            if budget > 0 and not sequence.decoding:
                count = min(budget, sequence.uncomputed)
                self._planned.append((sequence, count))
                budget -= count
        return budget

    def _admit(self, budget: int) -> list[NewSlot]:
        new: list[NewSlot] = []
        while budget > 0 and self._waiting and self._free_slots:
            sequence = self._waiting[0]
            needed = self.pool.pages_for(len(sequence.tokens))
            if self._running and self.pool.free < needed + len(self._running):
                break
            pages = self.pool.take(needed)
            if pages is None:
                break
            self._waiting.pop(0)
            new.append(self._enter(sequence, pages))
            count = min(budget, sequence.uncomputed)
            self._planned.append((sequence, count))
            budget -= count
        return new

    def _enter(self, sequence: Sequence, pages: list[int]) -> NewSlot:
        sequence.state, sequence.pages, sequence.slot = State.RUNNING, pages, self._free_slots.pop()
        bisect.insort(self._running, sequence, key=lambda other: other.arrival)
        request = sequence.request
        return NewSlot(
            slot=sequence.slot,
            tokens=list(sequence.tokens),
            pages=list(pages),
            sampling=request.sampling,
            seed=request.seed,
            min_length=sequence.prompt_length + request.min_tokens,
            banned=sorted({*request.eos_ids, *request.stop_ids}) if request.min_tokens else [],
        )

    def _leave(self, sequence: Sequence) -> None:
        """The one way out of both queues: pages and slot return."""
        if sequence.state is State.WAITING:
            self._waiting.remove(sequence)
            return
        self._running.remove(sequence)
        self.pool.release(sequence.pages)
        self._free_slots.append(sequence.slot)
        self._dropped.append(sequence.slot)
        self._grown = [grow for grow in self._grown if grow[0] != sequence.slot]
        sequence.pages, sequence.slot = [], -1
