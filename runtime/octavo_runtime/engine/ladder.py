"""The memory ladder at work: what the pool and the queue show, the level that follows (`pressure.py`), and what is told of it.

It changes nothing itself: scheduler, entrance and admission ask for its `measures`.
"""

import logging

from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.entrance import Entrance
from octavo_runtime.engine.forecast import usable_pages
from octavo_runtime.engine.lifecycle import Lifecycle
from octavo_runtime.engine.pressure import (
    TOP,
    Means,
    Measures,
    Signs,
    Standing,
    length_cap,
    measures,
    next_standing,
    passed_over,
    sentence,
)
from octavo_runtime.engine.yielding import Yielding

log = logging.getLogger("octavo.engine")

_NEWEST_STEP_WEIGHS = 0.1  # in the mean time between steps
_LONGEST_INTERVAL_S = 1.0  # steps further apart were not held up by work


class Ladder:
    """`means` None: there is no ladder, the level stays 0."""

    def __init__(self, life: Lifecycle, entrance: Entrance, limits: Limits, means: Means | None) -> None:
        self._life = life
        self._entrance = entrance
        self.yielding = Yielding(life)
        self._max_model_len = limits.max_model_len
        self._enabled = means is not None
        self._means = means or Means()
        self._usable = usable_pages(life.pool.total)
        self._standing = Standing()
        self._signs = Signs(self._usable, 0, 0, 0, self._usable, 0)
        self._told_level = 0
        self._stepped_s: float | None = None
        self._step_s = 0.0  # mean time between steps; 0: unknown
        self.measures = Measures()
        self.entered_total = [0] * TOP  # how often each level was climbed to

    @property
    def level(self) -> int:
        return self._standing.level

    @property
    def reason(self) -> str:
        """The level, what it does, and the arithmetic of this moment; empty at level 0."""
        return sentence(self.level, self._signs, self._means) if self.level else ""

    @property
    def untold(self) -> bool:
        """Whether the level has changed since `tell`."""
        return self._told_level != self._standing.level

    @property
    def length_cap(self) -> int | None:
        """The most tokens, prompt and output together, that a new request may have now; None: no other limit than the context."""
        if not self.measures.caps_length:
            return None
        cap = length_cap(self._usable, self._life.pool.page_size)
        return cap if cap < self._max_model_len else None

    def tell(self) -> int:
        """The level, for gauges."""
        self._told_level = self._standing.level
        return self._told_level

    def stepped(self, now_s: float) -> None:
        """A step was collected."""
        if self._stepped_s is not None:
            sample = min(_LONGEST_INTERVAL_S, now_s - self._stepped_s)
            self._step_s += (sample - self._step_s) * (_NEWEST_STEP_WEIGHS if self._step_s else 1.0)
        self._stepped_s = now_s

    def look(self, now_s: float) -> None:
        """Settle the level anew."""
        if not self._enabled:
            return
        before = self._standing
        self._signs = self._seen(now_s)
        self._standing = next_standing(before, self._signs, self._means, now_s)
        level = self._standing.level
        if level == before.level:
            return
        self.measures = measures(level, self._means)
        for climbed in range(before.level, level):
            self.entered_total[climbed] += not passed_over(climbed + 1, self._means)
        log.log(
            logging.WARNING if level > before.level else logging.INFO,
            "memory pressure from level %d to %s",
            before.level,
            sentence(level, self._signs, self._means),
        )

    def _seen(self, now_s: float) -> Signs:
        pool, below = self._life.pool, self._pages_below()
        return Signs(
            usable=self._usable + below,
            referenced=pool.used,
            peak=self._entrance.peak.running_peak(self._life.batch, now_s),
            waiting=self._awaited_pages(),
            free=pool.free + below,
            soon=self._needed_soon(),
            next=self.yielding.needed if pool.free < len(self._life.batch) else 0,  # nobody takes more than one
        )

    def _pages_below(self) -> int:
        """Free pages of the overflow, where one sequence has all of them and the pool to itself: that it is longer is no shortage.
        Whoever waits has no use of them.
        """
        alone = len(self._life.batch) == 1 and not self._life.waiting
        return self._life.pool.free_below if alone else 0

    def _awaited_pages(self) -> int:
        """What those who wait will need, once somebody was kept out for want of pages: who waits for a slot, or for a page that is
        being computed, is no pressure. Their prompts may have as much in common as those have that run.
        """
        waiting, pool = self._life.waiting, self._life.pool
        if not self._entrance.short_of_pages:
            return 0
        pages = pool.pages_for(waiting.expected_tokens)
        in_tables = sum(len(sequence.pages) for sequence in self._life.batch)
        return pages * pool.used // in_tables if in_tables > pool.used else pages

    def _needed_soon(self) -> int:
        """Pages that those who run will take within a second: the rest of their prompts, and a page for so many tokens drawn."""
        pool, batch = self._life.pool, self._life.batch
        prompts = sum(
            pool.pages_for(one.length, one.page_factor) - pool.pages_for(one.submitted, one.page_factor)
            for one in batch
            if one.uncomputed > 1
        )
        steps_per_s = 1.0 / self._step_s if self._step_s else 0.0
        return prompts + int(len(batch) * steps_per_s / pool.page_size)
