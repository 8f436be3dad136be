"""Which tokens are computed in the next step.

One token budget a step: every decoding sequence gets its token first, a part of what is left goes to prompts, in chunks
(`prefill.py`). A waiting sequence enters when a slot is free and the predicted peak of all who run stays within the pool
(`entrance.py`). A decode without a page preempts the sequence that loses least, never the first by rank, so that one always comes
to its end; the victim's pages return, and it waits with its rank, to be computed again from what the prefix cache still holds.

`plan` changes slots and tables; what was computed, drawn and published changes at `commit` only.
"""

import dataclasses
import time
from collections.abc import Callable

from octavo_runtime.engine.admission import Limits, Queued
from octavo_runtime.engine.block_pool import BlockPool, PoolError
from octavo_runtime.engine.counts import Counts, first_time_prompt_tokens
from octavo_runtime.engine.deadlines import Deadlines
from octavo_runtime.engine.entrance import Entrance
from octavo_runtime.engine.lifecycle import Lifecycle
from octavo_runtime.engine.long_prompts import LongPrompts
from octavo_runtime.engine.outcome import Outcome
from octavo_runtime.engine.plan import Run, StepPlan, StepResult
from octavo_runtime.engine.prefill import share_budget, share_whole
from octavo_runtime.engine.prefix_index import CacheIdentity
from octavo_runtime.engine.request import Sequence, State
from octavo_runtime.engine.victim import victim
from octavo_runtime.engine.waiting import DrainRate
from octavo_runtime.messages import AddRequest, Output, Stats


@dataclasses.dataclass(frozen=True)
class Policy:
    """What of the configuration the scheduler goes by."""

    max_num_batched_tokens: int
    prefill_percent: int = 100  # of the budget, while others decode
    chunked_prefill: bool = True
    scheduler_delay_s: float = 0.0
    halve_for_long_prompts: bool = False


class Scheduler:
    """`identity` None: no prefix cache. `clock_s` is monotonic."""

    def __init__(
        self,
        pool: BlockPool,
        limits: Limits,
        policy: Policy,
        identity: CacheIdentity | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pool = pool
        self._limits = limits
        self._policy = policy
        self._clock_s = clock_s
        self._life = Lifecycle(pool, limits.max_num_seqs, identity)
        self._entrance = Entrance(pool, self._life, limits)
        self._outcome = Outcome(self._life, limits.max_model_len)
        self._deadlines = Deadlines()
        self._drain = DrainRate()
        self._long_prompts = LongPrompts()
        self._step = 0
        self._runs: dict[Sequence, int] = {}  # tokens of the step in flight
        self._ended: list[Output] = []  # endings that no step gave
        self._counts = Counts()

    @property
    def has_work(self) -> bool:
        return bool(self._life.requests)

    @property
    def has_ended(self) -> bool:
        """Endings wait that no step gave: `take_ended`."""
        return bool(self._ended)

    @property
    def max_num_seqs(self) -> int:
        """Sequences that may run at once now."""
        most = self._limits.max_num_seqs
        halved = self._policy.halve_for_long_prompts and self._long_prompts.prevail
        return max(1, most // 2) if halved else most

    def knows(self, request_id: str) -> bool:
        return request_id in self._life.requests

    def queued(self) -> Queued:
        waiting = self._life.waiting
        retry_after_s = self._drain.retry_after_s(len(waiting), self._clock_s())
        return Queued(len(waiting), waiting.prompt_tokens, retry_after_s)

    def gathering_s(self) -> float:
        """How long an idle engine waits yet for more requests to begin with."""
        waiting = self._life.waiting
        if not len(waiting) or len(self._life.batch) or len(waiting) >= self.max_num_seqs:
            return 0.0
        first_s = min(sequence.request.arrived_s for sequence in waiting)
        until_s = min(first_s + self._policy.scheduler_delay_s, self._deadlines.next_s)
        return max(0.0, until_s - self._clock_s())

    def add(self, asked: AddRequest) -> None:
        """Let an admitted request (see `admission.refusal`) wait for its turn."""
        request = self._life.add(asked, self._clock_s(), self._entrance.peak.expected_output(asked))
        self._deadlines.add(request)
        self._long_prompts.saw(request.prompt_length)

    def abort(self, ids: list[str]) -> list[str]:
        """End these requests and give back their pages; no step may be in flight. Returns the ids that were known."""
        assert not self._runs
        known = [one for one in dict.fromkeys(ids) if self.knows(one)]
        for one in known:
            self._outcome.aborted(self._life.requests[one])
        return known

    def abort_sequences(self, sequences: list[tuple[str, int]]) -> bool:
        """End single choices of requests, by id and index; whether there was any. Beams are no choices: they end together."""
        assert not self._runs
        wanted = set(sequences)
        requests = [self._life.requests[name] for name in {name for name, _ in wanted} if self.knows(name)]
        live = [one for request in requests if request.asked.beam is None for one in request.sequences]
        gone = [one for one in live if (one.request.asked.id, one.index) in wanted and one.choices == 1]
        for sequence in gone:
            self._life.finish(sequence)
        return bool(gone)

    def plan(self) -> StepPlan | None:
        """The next step, or None when nothing can run."""
        assert not self._runs
        for request in self._deadlines.take_overdue(self._clock_s()):
            self._ended += self._outcome.overdue(request)
        if self.gathering_s() > 0:
            return None
        self._admit()  # before anything is held: who enters may share a page that another was about to write
        self._plan_decodes()
        self._plan_prefills()
        if not self._runs and self._park_beams():
            self._admit()
            self._plan_prefills()
        if not self._runs:
            return None
        self._step += 1
        new, grown, dropped = self._life.batch.differences()
        run = [Run(sequence.slot, sequence.computed, count) for sequence, count in self._runs.items()]
        return StepPlan(self._step, new, grown, dropped, run, self._life.tables.take_copies(), [])

    def commit(self, result: StepResult, busy_s_total: float) -> tuple[list[Output], Stats]:
        """Take a collected step into the books: what was computed and drawn, who finished."""
        drawn = {draw.slot: draw for draw in result.drawn}
        runs, self._runs = self._runs, {}
        outputs, self._ended = self._ended, []
        draws = [(sequence, drawn[sequence.slot]) for sequence in runs if sequence.slot in drawn]
        prompt_tokens = sum(first_time_prompt_tokens(sequence, count) for sequence, count in runs.items())
        for sequence, count in runs.items():
            self._life.tables.computed(sequence, count)
        for sequence, draw in draws:
            outputs += self._outcome.drawn(sequence, draw)
        return outputs, self._stats(list(runs.values()), prompt_tokens, outputs, busy_s_total)

    def take_ended(self, busy_s_total: float) -> tuple[list[Output], Stats]:
        """Endings and counts when no step ran, after aborts or when a sequence outgrew the pool."""
        return self.commit(StepResult(self._step, []), busy_s_total)

    def audit(self) -> None:
        """Raise PoolError unless the pool's books and the sequences' tables agree and nothing shared is about to be written."""
        self.pool.audit(sequence.pages for sequence in self._life.batch)
        size = self.pool.page_size
        for sequence, count in self._runs.items():
            for place in range(sequence.computed // size, self.pool.pages_for(sequence.computed + count)):
                if not self.pool.writable(sequence.pages[place], max(0, sequence.computed - place * size)):
                    raise PoolError(f"page {sequence.pages[place]} would be written while others read it")

    def _plan_decodes(self) -> None:
        for sequence in self._life.batch:
            running = sequence.state is State.RUNNING  # nobody has preempted it meanwhile
            if running and sequence.decoding and self._make_room(sequence, len(sequence.tokens)):
                self._runs[sequence] = 1

    def _admit(self) -> None:
        """What a request finds in the prefix cache, and that it has left the queue, counts the first time only."""
        for sequence in self._entrance.admit(self.max_num_seqs):
            request = sequence.request
            if request.cached_tokens is None:
                request.cached_tokens = sequence.computed
                self._counts.looked_up(request.prompt_length, sequence.computed)
                self._drain.left(self._clock_s())

    def _plan_prefills(self) -> None:
        """Go on with all prompts that are not computed, and with what is computed again after a preemption."""
        policy, budget = self._policy, self._policy.max_num_batched_tokens - len(self._runs)
        if self._runs:
            budget = min(budget, -(-policy.max_num_batched_tokens * policy.prefill_percent // 100))
        prompts = [one for one in self._life.batch if not one.offered and one not in self._runs]
        share = share_budget if policy.chunked_prefill else share_whole
        counts = share(budget, [one.uncomputed for one in prompts])
        for sequence, count in zip(prompts, counts, strict=True):
            if count and sequence.state is State.RUNNING:
                self._plan_prefill(sequence, count)

    def _plan_prefill(self, sequence: Sequence, count: int) -> None:
        """Plan as much as there are pages for; only the first by rank takes pages from others."""
        if self._policy.chunked_prefill:
            count = min(count, self._life.tables.room(sequence)) or min(count, self.pool.page_size)
        hold = self._make_room if sequence is self._life.batch.first else self._life.tables.hold
        if hold(sequence, sequence.computed + count):
            self._runs[sequence] = count

    def _park_beams(self) -> bool:
        """Nothing can run: beams that have offered their tokens hold the pages that their siblings wait for. They give them
        back."""
        parked = [sequence for sequence in self._life.batch if sequence.offered]
        for sequence in parked:
            self._preempt(sequence)
        return bool(parked)

    def _make_room(self, sequence: Sequence, end: int) -> bool:
        """Hold slots up to `end` tokens, preempting others if need be; False if the sequence had to yield."""
        while not self._life.tables.hold(sequence, end):
            loser = victim(self._life.batch, self._life.tables)
            if loser is None:
                self._ended += self._outcome.outgrown(sequence)
                return False
            self._preempt(loser)
            if loser is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self._runs.pop(sequence, None)
        self._counts.preempted(sequence, self._life.tables.lost_tokens(sequence), self._clock_s())
        self._life.preempt(sequence)

    def _stats(self, runs: list[int], prompt_tokens: int, outputs: list[Output], busy_s_total: float) -> Stats:
        pool, life, peak = self.pool, self._life, self._entrance.peak
        lengths, self._outcome.lengths = self._outcome.lengths, []
        for length, _ in lengths:
            peak.lengths.record(length)
        predicted_peak, predicted_deficit = peak.prediction(life.batch, life.waiting.expected_tokens, self._clock_s())
        return Stats(
            running=len(life.batch),
            waiting=len(life.waiting),
            blocks_total=pool.total,
            blocks_used=pool.used,
            blocks_cached=pool.cached,
            slots_filled=life.slots_filled(),
            batch_size=len(runs),
            step_tokens=sum(runs),
            step_prompt_tokens=prompt_tokens,
            step_generated_tokens=sum(len(output.token_ids) for output in outputs),
            busy_s_total=busy_s_total,
            preemptions_total=self._counts.preemptions_total,
            max_num_seqs=self.max_num_seqs,
            prefix_queries_tokens_total=self._counts.prefix_queries_tokens_total,
            prefix_hits_tokens_total=self._counts.prefix_hits_tokens_total,
            page_copies_total=life.tables.copies_total,
            predicted_peak_blocks=predicted_peak,
            predicted_deficit_blocks=predicted_deficit,
            step_forecast_ratios=[length / max(1, forecast) for length, forecast in lengths],
        )
