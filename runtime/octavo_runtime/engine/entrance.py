"""Who of the waiting sequences enters the batch: in order of rank, as long as slots and the predicted peak of pages allow."""

from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.block_pool import BlockPool, Match
from octavo_runtime.engine.lifecycle import Lifecycle
from octavo_runtime.engine.peak_admission import PeakAdmission
from octavo_runtime.engine.pressure import FEW_ENTER, Measures
from octavo_runtime.engine.request import Sequence

PASSED_BY_MOST = 8  # later sequences that may enter while the head does not fit …
SMALL_SHARE = 4  # … each of at most a fourth of its need
LOOKED_AT = 64  # waiting sequences that are considered in one plan
ENTERED_AT_ONCE = 16  # each costs a prediction, and a step computes few prompts anyway


class Entrance:
    def __init__(self, pool: BlockPool, life: Lifecycle, limits: Limits) -> None:
        self._pool = pool
        self._life = life
        self._limits = limits
        self.peak = PeakAdmission(pool, life.tables, limits)
        self.short_of_pages = False  # whether somebody who had a slot was kept out

    def admit(self, max_num_seqs: int, measures: Measures | None = None, reserve: int = 0) -> list[Sequence]:
        """Let in whoever may run now, no more than `max_num_seqs` at once; returns those who did.

        While the first of the queue does not fit, a few small ones may pass it, so that it still has its turn soon. `reserve`: free
        pages that the running ones need first, where only few may enter.
        """
        entered: list[Sequence] = []
        if not len(self._life.waiting) or not self._has_slots(1, max_num_seqs):
            self.short_of_pages = False
            return entered
        measures = measures or Measures()
        most = FEW_ENTER if measures.few_enter else ENTERED_AT_ONCE
        self.peak.begin(self._life.batch, measures.quantile)
        head: Sequence | None = None
        for sequence in self._life.waiting.first(LOOKED_AT):
            if len(entered) == most or not self._has_slots(1, max_num_seqs):
                break
            if head is not None and not self._may_pass(sequence, head):
                continue
            match = self._life.tables.match(sequence)
            if self._computed_beside(sequence, match):
                continue
            has_pages = not measures.few_enter or self._finds_pages(sequence, match, reserve)
            if self._has_slots(sequence.choices, max_num_seqs) and has_pages and self.peak.admit(sequence, match):
                self._enter(sequence, match)
                entered.append(sequence)
                if head is not None:
                    head.passed_by += 1
            else:
                head = head or sequence
        if head is not None or len(entered) < most:
            self.short_of_pages = head is not None and self._has_slots(head.choices, max_num_seqs)
        return entered

    def _finds_pages(self, sequence: Sequence, match: Match, reserve: int) -> bool:
        """Whether all that it has to compute finds free pages now; alone, whoever was not refused may enter."""
        pool = self._pool
        shared = sum(pool.references(page) > 0 for page in match.pages)
        return (
            not len(self._life.batch)
            or pool.pages_for(sequence.length, sequence.page_factor) - shared + reserve <= pool.free
        )

    def _may_pass(self, sequence: Sequence, head: Sequence) -> bool:
        if head.passed_by >= PASSED_BY_MOST:
            return False
        return SMALL_SHARE * self.peak.wanted_pages(sequence) <= self.peak.wanted_pages(head)

    def _has_slots(self, count: int, max_num_seqs: int) -> bool:
        """For all that a sequence forks into; alone, a request wider than a halved limit runs all the same."""
        free = self._life.batch.free_slots
        taken = self._limits.max_num_seqs - free
        return count <= free and (taken == 0 or taken + count <= max_num_seqs)

    def _computed_beside(self, sequence: Sequence, match: Match) -> bool:
        """Whether the page that it lacks first is just being computed by one that runs: it waits for that page instead."""
        size = self._pool.page_size * sequence.page_factor
        at = match.tokens // size
        if at >= len(sequence.keys) or (at + 1) * size >= len(sequence.tokens):
            return False
        return any(
            other.computed < (at + 1) * size and at < len(other.keys) and other.keys[at] == sequence.keys[at]
            for other in self._life.batch
        )

    def _enter(self, sequence: Sequence, match: Match) -> None:
        self._life.enter(sequence, match)
        sequence.request.forecast_output = self.peak.remaining(sequence) + sequence.generated
