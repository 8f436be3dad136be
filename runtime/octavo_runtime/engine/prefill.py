"""How much of a step prompts get, and how it is shared among those that are being computed. Pure."""

from collections.abc import Sequence


def prefill_budget(budget: int, decodes: int, percent: int) -> int:
    """Tokens that prompts get of a step's `budget` beside so many decodes: at most `percent` of it, all without a decode."""
    left = max(0, budget - decodes)
    return min(left, -(-budget * percent // 100)) if decodes else left


def share_budget(budget: int, wanted: Sequence[int]) -> list[int]:
    """How many tokens each gets; `wanted` is what each has left to compute, in order of rank.

    The first is sure of half the budget, so that a long prompt comes to its end however many short ones arrive; the other half goes
    to the shortest first, so that short ones do not wait behind long ones. What one cannot use the others get.
    """
    if not wanted:
        return []
    given = [0] * len(wanted)
    given[0] = min(wanted[0], -(-budget // 2))
    budget -= given[0]
    shortest_first = sorted(range(1, len(wanted)), key=lambda index: wanted[index])
    for index in [*shortest_first, 0]:
        count = min(wanted[index] - given[index], budget)
        given[index] += count
        budget -= count
    return given


def share_whole(budget: int, wanted: Sequence[int]) -> list[int]:
    """The same without chunks: in order of rank, a prompt gets all that it wants or nothing."""
    given = []
    for count in wanted:
        given.append(count if count <= budget else 0)
        budget -= given[-1]
    return given
