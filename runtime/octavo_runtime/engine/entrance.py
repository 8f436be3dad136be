"""Who of the waiting sequences enters the batch: in order of rank, as long as slots and the predicted peak of pages allow."""

from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.block_pool import BlockPool, Match
from octavo_runtime.engine.lifecycle import Lifecycle
from octavo_runtime.engine.peak_admission import PeakAdmission
from octavo_runtime.engine.request import Sequence

PASSED_BY_MOST = 8  # later sequences that may enter while the head does not fit …
SMALL_SHARE = 4  # … each of at most a fourth of its need
LOOKED_AT = 64  # waiting sequences that are considered in one plan


class Entrance:
    def __init__(self, pool: BlockPool, life: Lifecycle, limits: Limits) -> None:
        self._pool = pool
        self._life = life
        self.peak = PeakAdmission(pool, life.tables, limits)

    def admit(self, max_num_seqs: int) -> list[Sequence]:
        """Let in whoever may run now, no more than `max_num_seqs` at once; returns those whose first time it is.

        While the first of the queue does not fit, a few small ones may pass it, so that it still has its turn soon.
        """
        if not len(self._life.waiting) or self._life.batch.free_slots <= 0:
            return []
        self.peak.begin(self._life.batch)
        entered: list[Sequence] = []
        head: Sequence | None = None
        for sequence in self._life.waiting.first(LOOKED_AT):
            if sequence.offered or (head is not None and not self._may_pass(sequence, head)):
                continue
            match = self._match(sequence, max_num_seqs)
            if match is None:
                head = head or sequence
            elif not self._computed_beside(sequence, match):
                self.peak.admitted(sequence, match)
                entered += [sequence] if self._enter(sequence, match) else []
                if head is not None:
                    head.passed_by += 1
        return entered

    def _may_pass(self, sequence: Sequence, head: Sequence) -> bool:
        if head.passed_by >= PASSED_BY_MOST:
            return False
        return SMALL_SHARE * self.peak.wanted_pages(sequence) <= self.peak.wanted_pages(head)

    def _match(self, sequence: Sequence, max_num_seqs: int) -> Match | None:
        """What it would begin with, None where it does not fit."""
        batch = self._life.batch
        over = (
            len(batch) > 0 and len(batch) + sequence.choices > max_num_seqs
        )  # alone, a wide request may run all the same
        if over or sequence.choices > batch.free_slots:
            return None
        match = self._life.tables.match(sequence)
        return match if self.peak.fits(sequence, match) else None

    def _computed_beside(self, sequence: Sequence, match: Match) -> bool:
        """Whether the page that it lacks first is just being computed by one that runs: it waits for that page instead."""
        at = match.tokens // self._pool.page_size
        if at >= len(sequence.keys) or (at + 1) * self._pool.page_size >= len(sequence.tokens):
            return False
        return any(
            other.computed < (at + 1) * self._pool.page_size
            and at < len(other.keys)
            and other.keys[at] == sequence.keys[at]
            for other in self._life.batch
        )

    def _enter(self, sequence: Sequence, match: Match) -> bool:
        """Whether it is the first time that its request has a place."""
        self._life.enter(sequence, match)
        request = sequence.request
        if request.cached_tokens is not None:
            return False
        request.cached_tokens = match.tokens
        request.forecast_output = self.peak.remaining(sequence)
        return True
