"""Which tokens are computed in the next step.

Who enters, yields and computes how much is `step_planner.py`'s; here is what comes in, what was drawn, and what is told of it.

`plan` changes slots and tables; what was computed, drawn and published changes at `commit` only.

A step can be planned while `depth` others are in flight: a decoding sequence goes on after the token that one of these draws,
whatever it is. Two things need the steps in flight to be collected first, and the plan is None until they are: a draw that decides
which sequences there are (beams, the first of several choices), and pages for which somebody would have to be preempted. So only
sequences that nothing in flight computes for fork or yield. An end by length is foreseen; after another one (an ending id, an
abort, a deadline) what a step in flight draws is dropped, and pages and slots return with it (`fence.py`).
"""

import random
import time
from collections.abc import Callable

from octavo_runtime.engine.admission import Limits, Queued, capped, kv_budget
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.block_store import BlockStore, OverflowPages
from octavo_runtime.engine.counts import Counts
from octavo_runtime.engine.deadlines import Deadlines
from octavo_runtime.engine.entrance import Entrance
from octavo_runtime.engine.flight import Flight, Landed
from octavo_runtime.engine.gauges import Done, Gauges
from octavo_runtime.engine.ladder import Ladder
from octavo_runtime.engine.lifecycle import Lifecycle
from octavo_runtime.engine.long_prompts import LongPrompts
from octavo_runtime.engine.outcome import Outcome
from octavo_runtime.engine.plan import StepPlan, StepResult
from octavo_runtime.engine.policy import Policy
from octavo_runtime.engine.prefix_index import CacheIdentity
from octavo_runtime.engine.quality_guard import QualityGuard
from octavo_runtime.engine.request import Sequence, State
from octavo_runtime.engine.step_budget import StepBudget
from octavo_runtime.engine.step_planner import StepPlanner
from octavo_runtime.engine.waiting import DrainRate
from octavo_runtime.messages import AddRequest, Output, Stats

TRANSFER_POLL_S = 0.001  # between looks at transfers, when nothing else is to be done


class Scheduler:
    """`identity` None: no prefix cache. `clock_s` is monotonic. `depth`: steps that may be in flight when another is planned."""

    def __init__(
        self,
        pool: BlockPool,
        limits: Limits,
        policy: Policy,
        identity: CacheIdentity | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        depth: int = 0,
        store: BlockStore | None = None,
        overflow: OverflowPages | None = None,
    ) -> None:
        self.pool = pool
        self._limits = limits
        self._policy = policy
        self._clock_s = clock_s
        self._depth = depth
        self._life = Lifecycle(pool, limits.max_num_seqs, identity, depth > 0, store, overflow, clock_s)
        self._entrance = Entrance(pool, self._life, limits)
        self._outcome = Outcome(self._life, limits.max_model_len)
        self._deadlines = Deadlines()
        self._drain = DrainRate()
        self._long_prompts = LongPrompts()
        self._flight = Flight(self._life)
        self._ended: list[Output] = []  # endings that no step gave
        self._counts = Counts()
        self._guard = QualityGuard(policy.kv_guard_percent, policy.kv_guard_limit, random.Random(0))
        self.budget = StepBudget(policy.max_num_batched_tokens)
        self.ladder = Ladder(self._life, self._entrance, limits, policy.ladder)
        peak, ladder = self._entrance.peak, self.ladder
        self._gauges = Gauges(self._life, peak, self._counts, ladder, self._guard, self.budget)
        self._planner = StepPlanner(
            self._life,
            self._entrance,
            self._flight,
            self._outcome,
            ladder,
            self.budget,
            self._counts,
            self._drain,
            limits,
            policy,
            clock_s,
        )

    @property
    def has_work(self) -> bool:
        """Requests that are not finished, or a step in flight."""
        return bool(self._life.requests or self._flight)

    @property
    def has_ended(self) -> bool:
        """Endings wait that no step gave, or the ladder's level: `take_ended`."""
        return bool(self._ended) or self.ladder.untold

    @property
    def max_num_seqs(self) -> int:
        """Sequences that may run at once now."""
        most = self._limits.max_num_seqs
        halved = self._policy.halve_for_long_prompts and self._long_prompts.prevail
        return max(1, most // 2) if halved else most

    def knows(self, request_id: str) -> bool:
        return request_id in self._life.requests

    def queued(self) -> Queued:
        waiting, ladder, now_s = self._life.waiting, self.ladder, self._clock_s()
        ladder.look(now_s)
        retry_after_s = self._drain.retry_after_s(len(waiting), now_s)
        refuses, cap = ladder.measures.refuses, ladder.length_cap
        return Queued(len(waiting), waiting.prompt_tokens, retry_after_s, ladder.reason, refuses, cap)

    def gathering_s(self) -> float:
        """How long there is nothing to do but to wait: for more requests to begin with, or for pages from a tier."""
        only_transfers = self._life.tiering.busy and not self._flight and not self._planner.going_on()
        return TRANSFER_POLL_S if only_transfers else self._gathering_s()

    def _gathering_s(self) -> float:
        waiting = self._life.waiting
        if not len(waiting) or len(self._life.batch) or len(waiting) >= self.max_num_seqs:
            return 0.0
        first_s = min(sequence.request.arrived_s for sequence in waiting)
        until_s = min(first_s + self._policy.scheduler_delay_s, self._deadlines.next_s)
        return max(0.0, until_s - self._clock_s())

    def add(self, asked: AddRequest) -> None:
        """Let an admitted request (see `admission.refusal`) wait for its turn."""
        wanted, asked = asked, capped(asked, self.ladder.length_cap)
        expected = self._entrance.peak.expected_output(asked)
        narrow = self.ladder.measures.lossy and not self._guard.objects
        budget = kv_budget(asked, self._limits, narrow)
        request = self._life.add(asked, self._clock_s(), expected, budget, narrow)
        if narrow:
            self._counts.narrowed(request, self.ladder.level)
        if asked is not wanted:
            self._counts.capped(request, wanted, self.ladder.level)
        self._deadlines.add(request)
        self._long_prompts.saw(request.prompt_length)

    def abort(self, ids: list[str]) -> list[str]:
        """End these requests and give back their pages, see `Fence`. Returns the ids that were known."""
        self._flight.changed()
        known = [one for one in dict.fromkeys(ids) if self.knows(one)]
        for one in known:
            self._outcome.aborted(self._life.requests[one])
        return known

    def abort_sequences(self, sequences: list[tuple[str, int]]) -> bool:
        """End single choices of requests, by id and index; whether there was any. Beams are no choices: they end together."""
        self._flight.changed()
        wanted = set(sequences)
        requests = [self._life.requests[name] for name in {name for name, _ in wanted} if self.knows(name)]
        live = [one for request in requests if request.asked.beam is None for one in request.sequences]
        gone = [one for one in live if (one.request.asked.id, one.index) in wanted and one.choices == 1]
        for sequence in gone:
            self._life.finish(sequence)
        return bool(gone)

    def plan(self) -> StepPlan | None:
        """The next step; None when nothing can run, or not before a step in flight is collected."""
        assert len(self._flight) <= self._depth
        self._flight.changed()
        now_s = self._clock_s()
        for request in self._deadlines.take_overdue(now_s):
            self._ended += self._outcome.overdue(request)
        self._life.tiering.poll()
        self.ladder.look(now_s)
        self.budget.look(now_s)
        if self._gathering_s() > 0 or self._flight.decides:
            return None
        runs = self._planner.runs(self.max_num_seqs)
        self._ended += self._planner.take_outgrown()
        if not self.has_work:
            self._life.tiering.rest()
        return self._flight.begin(runs) if runs else None

    def commit(self, result: StepResult, busy_s_total: float) -> tuple[list[Output], Stats]:
        """Take the oldest step in flight, collected, into the books: what was computed and drawn, who finished."""
        landed = self._flight.land(result)
        self._life.tiering.computed(landed.counts, busy_s_total)
        self.ladder.stepped(self._clock_s())
        outputs, self._ended = self._ended, []
        for sequence, draw in landed.draws:
            outputs += self._outcome.drawn(sequence, draw)
            if sequence.state is State.FINISHED:
                self._compare(sequence)
        outputs = self._guard.take(outputs)
        return outputs, self._stats(landed, outputs, busy_s_total)

    def roll_back(self) -> int | None:
        """Memory for the step planned last could not be had: it is as if it had not been planned, and steps are half as large for
        a while. How many tokens it had; None where it could not have been smaller."""
        if not self.budget.failed(self._clock_s()):
            return None
        return self._flight.undo()

    def take_ended(self, busy_s_total: float) -> tuple[list[Output], Stats]:
        """Endings and counts when no step ran, after aborts or when a sequence outgrew the pool."""
        outputs, self._ended = self._guard.take(self._ended), []
        return outputs, self._stats(Landed(), outputs, busy_s_total)

    def _compare(self, sequence: Sequence) -> None:
        """Let one that has ended be compared with the full KV format, where that is due."""
        asked = self._guard.comparison(sequence)
        if asked is not None:
            self._life.add(asked, self._clock_s(), 1).own = True

    def audit(self) -> None:
        """Raise PoolError unless the pool's books and the sequences' tables agree and nothing shared is about to be written."""
        self._flight.audit()

    def _stats(self, landed: Landed, outputs: list[Output], busy_s_total: float) -> Stats:
        generated, lengths = sum(len(output.token_ids) for output in outputs), self._outcome.take_lengths()
        step = Done(len(landed.counts), sum(landed.counts), landed.prompt_tokens, generated, lengths)
        return self._gauges.stats(step, self.max_num_seqs, self._clock_s(), busy_s_total)
