"""Selective caching: which pages of a sequence's history go when it may hold no more tokens than its budget. Pure.

Kept are the first page, on which attention rests whatever it says (StreamingLLM's sinks, arXiv 2309.17453), and the newest pages;
of those between, the ones go that got the least attention lately (H2O's heavy hitters stay, arXiv 2306.14048). Attention to a page
is what kernels tell of a step: its weights summed over the step's queries, as a mean over layers and heads, so that one query gives
1 to all pages together. Older attention counts half as much every `HALF_LIFE_TOKENS` queries.

A budget is a bound at every moment, not only after a prompt: once it is full, no step computes more tokens than the recent window
holds, and pages go before others are taken.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

SINK_PAGES = 1
LEAST_PAGES = 4  # the sink, the window, and two to choose from
RECENT_SHARE = 4  # the window is a quarter of the budget
HALF_LIFE_TOKENS = 512


@dataclasses.dataclass(frozen=True)
class KvBudget:
    """How many pages of `page_size` tokens a sequence may have, at least `LEAST_PAGES`."""

    pages: int
    page_size: int

    @classmethod
    def of_tokens(cls, tokens: int, page_size: int) -> "KvBudget":
        """Never more than `tokens`, but for what is too little to choose from (`least_tokens`)."""
        return cls(max(LEAST_PAGES, tokens // page_size), page_size)

    @property
    def tokens(self) -> int:
        return self.pages * self.page_size

    @property
    def recent_pages(self) -> int:
        return max(1, self.pages // RECENT_SHARE)

    @property
    def step_tokens(self) -> int:
        """The most tokens that a step computes for a sequence whose budget they would overrun."""
        return self.recent_pages * self.page_size

    @property
    def match_tokens(self) -> int:
        """The most that it may begin with of what is cached: what is computed after it tells what of it matters."""
        return self.tokens - self.step_tokens


def least_tokens(page_size: int) -> int:
    """The least budget that can be asked for."""
    return LEAST_PAGES * page_size


def places_to_evict(weights: Sequence[float], recent_pages: int, count: int) -> list[int]:
    """The `count` places of a table to give up, ascending: those with the least weight but for sinks and the newest; of equal ones
    the oldest. `weights` is of the table's full pages and the one that is being filled. There may be fewer than `count`.
    """
    between = range(SINK_PAGES, len(weights) - recent_pages)
    return sorted(sorted(between, key=lambda place: weights[place])[: max(0, count)])


def weighed(
    before: Mapping[int, float], pages: Collection[int], masses: Iterable[float], queries: int
) -> dict[int, float]:
    """The weight of each of `pages` after a step of `queries` queries in which they got `masses`."""
    kept = 0.5 ** (queries / HALF_LIFE_TOKENS)
    return {page: before.get(page, 0.0) * kept + mass for page, mass in zip(pages, masses, strict=True)}
