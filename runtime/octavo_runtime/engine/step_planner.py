"""Who computes how many tokens in the next step. It changes slots and tables, and nothing of what was computed.

One token budget a step: every decoding sequence gets its token first, a part of what is left goes to prompts, in chunks
(`prefill.py`). A waiting sequence enters when a slot is free and the predicted peak of all who run stays within the pool
(`entrance.py`). A decode without a page preempts the sequence that loses least, never the first by rank, so that one always comes
to its end; the victim's pages return, and it waits with its rank, to be computed again from what the prefix cache still holds.
"""

from collections.abc import Callable

from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.counts import Counts
from octavo_runtime.engine.entrance import Entrance
from octavo_runtime.engine.flight import Flight
from octavo_runtime.engine.ladder import Ladder
from octavo_runtime.engine.lifecycle import Lifecycle
from octavo_runtime.engine.outcome import Outcome
from octavo_runtime.engine.policy import Policy
from octavo_runtime.engine.prefill import prefill_budget, share_budget, share_whole
from octavo_runtime.engine.request import Sequence, State
from octavo_runtime.engine.step_budget import StepBudget
from octavo_runtime.engine.victim import victim
from octavo_runtime.engine.waiting import DrainRate
from octavo_runtime.messages import Output

DEMOTED_A_STEP = 4  # pages, while the ladder asks for it


class StepPlanner:
    def __init__(
        self,
        life: Lifecycle,
        entrance: Entrance,
        flight: Flight,
        outcome: Outcome,
        ladder: Ladder,
        budget: StepBudget,
        counts: Counts,
        drain: DrainRate,
        limits: Limits,
        policy: Policy,
        clock_s: Callable[[], float],
    ) -> None:
        self._life = life
        self._entrance = entrance
        self._flight = flight
        self._outcome = outcome
        self._ladder = ladder
        self._budget = budget
        self._counts = counts
        self._drain = drain
        self._limits = limits
        self._policy = policy
        self._clock_s = clock_s
        self._runs: dict[Sequence, int] = {}  # tokens of the step that is being planned
        self._lacks_pages = False  # somebody would have to be preempted for it
        self._outgrown: list[Output] = []

    def runs(self, max_num_seqs: int) -> dict[Sequence, int]:
        """Tokens of each sequence in the next step; empty when nothing can run, or not before a step in flight is collected."""
        self._runs, self._lacks_pages = {}, False
        self._relieve()
        # Before anything is held: who enters may share a page that another was about to write.
        self._admit(max_num_seqs)
        self._plan_decodes()
        if not self._lacks_pages:
            self._plan_prefills()
        if not self._runs and not self._flight and not self._life.tiering.busy and self._park_beams():
            self._admit(max_num_seqs)
            self._plan_prefills()
        return {} if self._lacks_pages else self._runs

    def take_outgrown(self) -> list[Output]:
        """Endings of those that outgrew the pool, since this was asked last."""
        outgrown, self._outgrown = self._outgrown, []
        return outgrown

    def going_on(self) -> list[Sequence]:
        """Those that run, but for whom a step in flight certainly ends, and for whom is about to yield."""
        running = (one for one in self._life.batch if one.state is State.RUNNING)
        going_on = [one for one in running if one not in self._ladder.yielding]
        if not self._flight:
            return going_on
        longest = self._limits.max_model_len
        return [one for one in going_on if not one.ends_in_flight(longest)]

    def _admit(self, max_num_seqs: int) -> None:
        """What a request finds in the prefix cache, and that it has left the queue, counts the first time only."""
        for sequence in self._entrance.admit(max_num_seqs, self._ladder.measures, self._ladder.yielding.reserve):
            request = sequence.request
            if request.cached_tokens is None:
                request.cached_tokens = sequence.computed
                self._counts.looked_up(request.prompt_length, sequence.computed)
                self._drain.left(self._clock_s())

    def _plan_decodes(self) -> None:
        for sequence in self.going_on():
            running = sequence.state is State.RUNNING  # nobody has preempted it meanwhile
            if len(self._runs) == self._budget.tokens:
                break
            if not running or not sequence.decoding or not self._life.tables.fit(sequence, 1):
                continue
            if self._make_room(sequence, sequence.length):
                self._runs[sequence] = 1

    def _plan_prefills(self) -> None:
        """Go on with all prompts that are not computed, and with what is computed again after a preemption."""
        policy = self._policy
        percent = max(1, policy.prefill_percent // self._ladder.measures.prefill_divisor)
        budget = prefill_budget(self._budget.tokens, len(self._runs), percent)
        prompts = [one for one in self.going_on() if not one.offered and one not in self._runs]
        share = share_budget if policy.chunked_prefill else share_whole
        counts = share(budget, [one.uncomputed for one in prompts])
        for sequence, count in zip(prompts, counts, strict=True):
            if count and sequence.state is State.RUNNING:
                self._plan_prefill(sequence, count)

    def _plan_prefill(self, sequence: Sequence, count: int) -> None:
        """Plan as much as there are pages for; only the first by rank takes pages from others."""
        count = self._life.tables.fit(sequence, count)
        if not count:
            return
        first = sequence is self._life.batch.first
        if self._policy.chunked_prefill:
            size = self._life.pool.page_size * sequence.page_factor
            reserved = 0 if first else self._ladder.yielding.reserve * size
            room = max(0, self._life.tables.room(sequence) - reserved)
            count = min(count, room) or (min(count, size) if first else 0)
        hold = self._make_room if first else self._life.tables.hold
        if count and hold(sequence, sequence.submitted + count):
            self._runs[sequence] = count

    def _relieve(self) -> None:
        """Where the ladder asks for it: write to tiers what would be reused next, and free the pages that the next steps will take,
        which costs less, and so begins sooner, where who yields is swapped."""
        measures = self._ladder.measures
        if measures.demotes:
            self._life.tiering.write_ahead(DEMOTED_A_STEP)
        if not (measures.preempts_ahead or measures.swaps):
            self._ladder.yielding.stop()
            return
        for sequence in self._ladder.yielding.take_due():
            self._counts.preempted_ahead(sequence)
            self._preempt(sequence)

    def _park_beams(self) -> bool:
        """Nothing can run: beams that have offered their tokens hold the pages that their siblings wait for. They give them
        back."""
        parked = [sequence for sequence in self._life.batch if sequence.offered]
        for sequence in parked:
            self._preempt(sequence)
        return bool(parked)

    def _make_room(self, sequence: Sequence, end: int) -> bool:
        """Hold slots up to `end` tokens, preempting others if need be; False if the sequence had to yield, or if that has to wait
        for what is in flight."""
        while not self._life.tables.hold(sequence, end):
            if self._flight:
                self._lacks_pages = True
                return False
            loser = victim(self._life.batch, self._life.tables)
            if loser is None and self._life.tiering.busy:
                self._lacks_pages = True
                return False
            if loser is None and self._life.spill(sequence):
                continue
            if loser is None:
                self._outgrown += self._outcome.outgrown(sequence)
                return False
            self._preempt(loser)
            if loser is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self._runs.pop(sequence, None)
        self._counts.preempted(sequence, self._life.tables.lost_tokens(sequence), self._clock_s())
        self._life.preempt(sequence)
