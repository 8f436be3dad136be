"""Who stops so that its pages are there when others need them: level 4 of the memory ladder.

A decode that finds no page preempts somebody in its own step, which has to wait until all steps in flight are collected. Ahead of
need the same victims are only left out of the next plan, and give their pages back once nothing in flight computes for them: no
step waits, and nobody computes tokens that are lost a moment later.
"""

from octavo_runtime.engine.lifecycle import Lifecycle
from octavo_runtime.engine.request import Sequence, State
from octavo_runtime.engine.victim import victim

AHEAD_TOKENS = 2  # of every decoding sequence: this step's and the next one's


class Yielding:
    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self._yielding: set[Sequence] = set()
        self.reserve = 0  # pages that are kept for `needed`, from whoever is not urgent

    def __contains__(self, sequence: Sequence) -> bool:
        """Whether it is to be left out of plans, for it will be preempted."""
        return sequence in self._yielding

    @property
    def needed(self) -> int:
        """Pages that the decoding sequences will take in the next steps."""
        pages_for = self._life.pool.pages_for
        decoding = [one for one in self._life.batch if one.uncomputed <= 1 and one not in self._yielding]
        return sum(
            max(0, pages_for(_next_end(one), one.page_factor) - pages_for(one.submitted, one.page_factor))
            for one in decoding
        )

    def stop(self) -> None:
        """Pages suffice: nobody has to yield."""
        self._yielding.clear()
        self.reserve = 0

    def take_due(self) -> list[Sequence]:
        """Choose as many as it takes for the others' next tokens; those of them to preempt now."""
        life, pool = self._life, self._life.pool
        self._yielding = {one for one in self._yielding if one.state is State.RUNNING}
        free = pool.free + sum(life.tables.own_pages(one) for one in self._yielding)
        while (needed := self.needed) > free:
            loser = victim(life.batch, life.tables, self._yielding)
            if loser is None:
                break
            self._yielding.add(loser)
            free += life.tables.own_pages(loser)
        self.reserve = needed
        due = [one for one in self._yielding if one.submitted == one.computed and not one.drawing]
        self._yielding.difference_update(due)
        return sorted(due, key=lambda one: one.rank)


def _next_end(sequence: Sequence) -> int:
    """Tokens that it has computed after the next steps; the last one that it may draw is never computed."""
    most = sequence.request.asked.max_tokens
    end = sequence.submitted + AHEAD_TOKENS
    return end if most is None else min(end, sequence.request.prompt_length + most - 1)
