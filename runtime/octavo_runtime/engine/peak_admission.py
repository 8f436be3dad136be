"""Whether one more sequence may run: the predicted peak of pages with it must stay within what is usable of the pool."""

import bisect
import dataclasses

from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.batch import Batch
from octavo_runtime.engine.block_pool import BlockPool, Match
from octavo_runtime.engine.forecast import QUANTILE, Demand, OutputLengths, peak_pages, usable_pages
from octavo_runtime.engine.request import Sequence
from octavo_runtime.engine.tables import Tables
from octavo_runtime.messages import AddRequest

PREDICTED_EVERY_S = 0.2


@dataclasses.dataclass
class _Crowd:
    """Sequences that run together, what each of them needs, and the pages that several of them refer to."""

    shared_pages: int
    demands: dict[Sequence, Demand]
    choices: list[Demand]  # of choices that are still to be drawn

    def peak(self, page_size: int) -> int:
        return peak_pages(self.shared_pages, [*self.demands.values(), *self.choices], page_size)


class PeakAdmission:
    """Asked anew for every plan: `begin`, then `admit` for each candidate."""

    def __init__(self, pool: BlockPool, tables: Tables, limits: Limits) -> None:
        self._pool = pool
        self._tables = tables
        self._usable = usable_pages(pool.total)
        # Tokens of a sequence: one that outgrows the pool alone ends there.
        self._longest = min(limits.max_model_len, pool.total * pool.page_size)
        self._quantile = QUANTILE
        self._crowd = _Crowd(0, {}, [])
        self._predicted, self._predicted_s = 0, -PREDICTED_EVERY_S
        self.lengths = OutputLengths()

    def begin(self, batch: Batch, quantile: float = QUANTILE) -> None:
        """Look at the sequences that run. `quantile`: of output lengths, that they and the candidates are expected to have."""
        self._quantile = quantile
        self._crowd = _Crowd(self._pool.used, {}, [])
        for sequence in batch:
            own = self._tables.own_pages(sequence)
            self._crowd.shared_pages -= own
            copied = self._tables.shares_its_end(sequence)
            self._add(self._crowd, sequence, len(sequence.pages), own + copied)

    def admit(self, candidate: Sequence, match: Match) -> bool:
        """Whether it may run beside those that do; it is counted among them then, and has not taken its pages yet.

        Alone, whoever was not refused may.
        """
        joined = self._joined(candidate, match)
        if self._crowd.demands and joined.peak(self._pool.page_size) > self._usable:
            return False
        self._crowd = joined
        return True

    def prediction(self, batch: Batch, waiting_tokens: int, now_s: float) -> tuple[int, int]:
        """For gauges: the predicted peak of those that run, and the pages that lack if all who wait ran as well.

        `waiting_tokens`: of their prompts and expected outputs. Worked out anew a few times a second: it costs as much as a plan.
        """
        predicted = self.running_peak(batch, now_s)
        return predicted, max(0, predicted + self._pool.pages_for(waiting_tokens) - self._usable)

    def running_peak(self, batch: Batch, now_s: float) -> int:
        """The predicted peak of those that run, in pages, a fifth of a second old at most."""
        if now_s - self._predicted_s >= PREDICTED_EVERY_S or not len(batch):
            self.begin(batch)
            self._predicted, self._predicted_s = self._crowd.peak(self._pool.page_size), now_s
        return self._predicted

    def expected_output(self, asked: AddRequest) -> int:
        """Tokens that a request is expected to generate, when it arrives."""
        room = max(0, self._longest - len(asked.prompt_ids))
        return self.lengths.remaining(0, room if asked.max_tokens is None else min(room, asked.max_tokens))

    def remaining(self, sequence: Sequence) -> int:
        """Tokens that it is expected to generate yet."""
        room = self._longest - len(sequence.tokens)
        asked = sequence.request.asked.max_tokens
        left = room if asked is None else min(room, asked - sequence.generated)
        return self.lengths.remaining(sequence.generated, max(0, left), self._quantile)

    def wanted_pages(self, sequence: Sequence) -> int:
        """Pages of its table at its end, with all its choices, when nothing is shared with others."""
        length, remaining = self._held(sequence)
        end = self._pool.pages_for(length + remaining, sequence.page_factor)
        prompt = length // (self._pool.page_size * sequence.page_factor)
        return end + (sequence.choices - 1) * (end - prompt)

    def _held(self, sequence: Sequence) -> tuple[int, int]:
        """Tokens that its table must hold now, and those that it will grow by: no more than its budget together."""
        length, remaining = len(sequence.tokens), self.remaining(sequence)
        budget = sequence.request.kv_budget
        if budget is not None:
            length = min(length, budget.tokens)
            remaining = min(remaining, budget.tokens - length)
        return length, remaining

    def _joined(self, candidate: Sequence, match: Match) -> _Crowd:
        """The crowd with one more. Pages that only one of the others had are shared from then on: they outlive it.

        Cached pages that nobody refers to count as the candidate's own, and so does the copy of a tail that it begins with.
        """
        crowd = _Crowd(self._crowd.shared_pages, dict(self._crowd.demands), list(self._crowd.choices))
        references = [self._pool.references(page) for page in match.pages]
        if 1 in references:
            for other, demand in self._crowd.demands.items():
                count = self._lent(other, match.pages)
                crowd.demands[other] = demand._replace(own_pages=demand.own_pages - count)
                crowd.shared_pages += count
        copied = match.tokens % (self._pool.page_size * candidate.page_factor) > 0
        self._add(crowd, candidate, len(match.pages), references.count(0) + copied)
        return crowd

    def _lent(self, other: Sequence, pages: list[int]) -> int:
        """How many of `pages`, a table's beginning, are in `other`'s table and in no other one."""
        most = min(len(other.pages), len(pages))
        common = bisect.bisect_left(range(most), True, key=lambda at: other.pages[at] != pages[at])
        return max(0, common - (len(other.pages) - self._tables.own_pages(other)))

    def _add(self, crowd: _Crowd, sequence: Sequence, table_pages: int, own_pages: int) -> None:
        length, remaining = self._held(sequence)
        factor = sequence.page_factor
        crowd.demands[sequence] = Demand(length, table_pages, own_pages, remaining, factor)
        forked = Demand(length, length // (self._pool.page_size * factor), 0, remaining, factor)
        crowd.choices += [forked] * (sequence.choices - 1)
