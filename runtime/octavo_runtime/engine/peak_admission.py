"""Whether one more sequence may run: the predicted peak of pages with it must stay within what is usable of the pool."""

from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.batch import Batch
from octavo_runtime.engine.block_pool import BlockPool, Match
from octavo_runtime.engine.forecast import Demand, OutputLengths, peak_pages, usable_pages
from octavo_runtime.engine.request import Sequence
from octavo_runtime.engine.tables import Tables
from octavo_runtime.messages import AddRequest

PREDICTED_EVERY_S = 0.2


class PeakAdmission:
    """Asked anew for every plan: `begin`, then `fits` for each candidate and `admitted` for those that enter."""

    def __init__(self, pool: BlockPool, tables: Tables, limits: Limits) -> None:
        self._pool = pool
        self._tables = tables
        self._limits = limits
        self._usable = usable_pages(pool.total)
        self._demands: list[Demand] = []
        self._shared = 0
        self._predicted, self._predicted_s = 0, -PREDICTED_EVERY_S
        self.lengths = OutputLengths()

    def begin(self, batch: Batch) -> None:
        """Look at the sequences that run."""
        self._demands = [demand for sequence in batch for demand in self._running(sequence)]
        self._shared = self._pool.used - sum(demand.own_pages for demand in self._demands)

    def fits(self, candidate: Sequence, match: Match) -> bool:
        """Whether it may run beside those that do; alone, whoever was not refused may."""
        if not self._demands:
            return True
        peak = peak_pages(self._shared, [*self._demands, *self._waiting(candidate, match)], self._pool.page_size)
        return peak <= self._usable

    def admitted(self, candidate: Sequence, match: Match) -> None:
        self._demands += self._waiting(candidate, match)

    def prediction(self, batch: Batch, waiting_tokens: int, now_s: float) -> tuple[int, int]:
        """For gauges: the predicted peak of those that run, and the pages that lack if all who wait ran as well.

        `waiting_tokens`: of their prompts and expected outputs. Worked out anew a few times a second: it costs as much as a plan.
        """
        if now_s - self._predicted_s >= PREDICTED_EVERY_S or not len(batch):
            self.begin(batch)
            self._predicted, self._predicted_s = peak_pages(self._shared, self._demands, self._pool.page_size), now_s
        return self._predicted, max(0, self._predicted + self._pool.pages_for(waiting_tokens) - self._usable)

    def expected_output(self, asked: AddRequest) -> int:
        """Tokens that a request is expected to generate, when it arrives."""
        room = self._limits.max_model_len - len(asked.prompt_ids)
        return self.lengths.remaining(0, room if asked.max_tokens is None else min(room, asked.max_tokens))

    def remaining(self, sequence: Sequence) -> int:
        """Tokens that it is expected to generate yet."""
        room = self._limits.max_model_len - len(sequence.tokens)
        asked = sequence.request.asked.max_tokens
        left = room if asked is None else min(room, asked - sequence.generated)
        return self.lengths.remaining(sequence.generated, max(0, left))

    def wanted_pages(self, sequence: Sequence) -> int:
        """Pages of its table at its end, with all its choices, when nothing is shared with others."""
        end = self._pool.pages_for(len(sequence.tokens) + self.remaining(sequence))
        prompt = len(sequence.tokens) // self._pool.page_size
        return end + (sequence.choices - 1) * (end - prompt)

    def _running(self, sequence: Sequence) -> list[Demand]:
        own = self._tables.own_pages(sequence)
        return self._demand(sequence, len(sequence.pages), own)

    def _waiting(self, sequence: Sequence, match: Match) -> list[Demand]:
        """Cached pages that nobody refers to count as its own from now on, and so does the copy of a tail that it begins with."""
        idle = sum(self._pool.references(page) == 0 for page in match.pages)
        copied = bool(match.tokens % self._pool.page_size)
        return self._demand(sequence, len(match.pages), idle + copied)

    def _demand(self, sequence: Sequence, table_pages: int, own_pages: int) -> list[Demand]:
        """One for the sequence, and one for each choice that will fork from the end of its prompt."""
        length, remaining = len(sequence.tokens), self.remaining(sequence)
        forked = Demand(length, length // self._pool.page_size, 0, remaining)
        return [Demand(length, table_pages, own_pages, remaining)] + [forked] * (sequence.choices - 1)
