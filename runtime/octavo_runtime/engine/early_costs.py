"""Which way a step reads pages below a GPU's pool: by what both ways took at the start.

`attend`: where they lie, by the host, while the GPU attends to the rest. `bring`: brought to the GPU ahead of their layer.
"""

import dataclasses
from typing import Literal, NamedTuple

Way = Literal["attend", "bring"]

# Enough to see what one more costs, and on a slow host no more than a second in all.
_MOST_QUERIES, _MOST_PAGES = 64, 64


class Corner(NamedTuple):
    """A step that is measured: new tokens of a sequence, and its pages below the pool."""

    queries: int
    pages: int


@dataclasses.dataclass(frozen=True)
class StepCost:
    """What steps of few and of many tokens took over few and over many early pages, in seconds, and what others will take.

    Straight lines through what was measured, and beyond it; more tokens and more pages never cost less.
    """

    few: Corner
    many: Corner
    few_few_s: float  # few queries, few pages
    few_many_s: float
    many_few_s: float
    many_many_s: float

    def seconds(self, queries: int, pages: int) -> float:
        share = (queries - self.few.queries) / max(1, self.many.queries - self.few.queries)
        more_pages = max(1, self.many.pages - self.few.pages)
        of_few = max(0.0, self.few_many_s - self.few_few_s) / more_pages
        of_many = max(of_few, (self.many_many_s - self.many_few_s) / more_pages)
        base_s = self.few_few_s + share * max(0.0, self.many_few_s - self.few_few_s)
        return base_s + (pages - self.few.pages) * (of_few + share * (of_many - of_few))


@dataclasses.dataclass(frozen=True)
class WayCosts:
    attend: StepCost
    bring: StepCost

    def choice(self, queries: int, pages: int) -> Way:
        """For a step of so many new tokens of sequences that have pages below, and so many such pages."""
        cheaper = self.attend.seconds(queries, pages) < self.bring.seconds(queries, pages)
        return "attend" if cheaper else "bring"


def corners(most_queries: int, most_pages: int, page_size: int, max_model_len: int) -> tuple[Corner, Corner] | None:
    """The smallest and the largest step to measure; None where a context has no room for a page and a token behind it."""
    longest = max_model_len - 1  # a token is drawn
    if most_pages < 1 or longest <= page_size:
        return None
    pages = min(most_pages, _MOST_PAGES, max(1, longest // 2 // page_size))
    return Corner(1, 1), Corner(min(most_queries, _MOST_QUERIES, longest - pages * page_size), pages)
