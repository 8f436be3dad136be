"""Choices and beams of one request share pages, and what one writes no other reads."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.engine.paper import Paper, alone

pytestmark = pytest.mark.usefixtures("each_depth")


def names(request: str, n: int) -> list[str]:
    return [f"{request}/{index}" if index else request for index in range(n)]


def test_choices_run_from_the_step_after_the_prompt() -> None:
    paper = Paper(budget=16)
    paper.add("r", prompt=20, output=5, n=3)
    paper.step()
    assert paper.running == ["r"]
    paper.step()
    assert paper.running == names("r", 3)
    assert [len(paper.tokens[name]) for name in names("r", 3)] == [1, 1, 1]


def test_full_pages_are_held_once_for_all_choices() -> None:
    paper = Paper()
    paper.add("r", prompt=16, output=8, n=4)
    paper.step()
    assert paper.stats.blocks_used == 4
    paper.step()
    assert paper.stats.blocks_used == 4 + 4
    assert paper.stats.slots_filled == 16 + 4


@pytest.mark.parametrize("caching", [True, False])
def test_every_choice_ends_by_itself(caching: bool) -> None:
    """Those that drew their end stop, the others go on."""
    paper = Paper(caching=caching)
    paper.add("r", prompt=6, output=12, n=6, seed=3, eos_ids=[1, 2])
    paper.run()
    lengths = {len(paper.tokens[name]) for name in names("r", 6)}
    assert len(lengths) > 1
    for index, name in enumerate(names("r", 6)):
        assert paper.tokens[name] == alone("r", 6, 12, seed=3 + index, eos_ids=[1, 2])["r"]
    assert paper.stats.blocks_used == 0


def test_a_choice_that_ends_with_its_first_token_leaves_the_others() -> None:
    paper = Paper(draw=lambda tokens, seed: seed)
    paper.add("r", prompt=6, output=4, n=3, seed=0, eos_ids=[0])
    paper.run()
    assert [paper.tokens[name] for name in names("r", 3)] == [[0], [1] * 4, [2] * 4]


@settings(max_examples=20, deadline=None)
@given(
    prompt=st.integers(1, 14),
    output=st.integers(1, 14),
    n=st.integers(1, 6),
    pages=st.integers(7, 16),
    caching=st.booleans(),
    company=st.integers(0, 4),
)
def test_choices_do_not_depend_on_memory_or_company(
    prompt: int, output: int, n: int, pages: int, caching: bool, company: int
) -> None:
    """Down to pages that hold one choice at a time: 14 + 14 tokens are 7 pages."""
    paper = Paper(pages=pages, caching=caching)
    paper.mislead()
    paper.add("r", prompt, output, n=n, seed=7)
    for index in range(company):
        paper.add(f"other {index}", prompt=1 + 3 * index, output=9)
    paper.run()
    want = alone("r", prompt, output, n=n, seed=7)
    assert {name: paper.tokens[name] for name in names("r", n)} == want
    assert paper.stats.blocks_used == 0


def test_the_end_of_one_answer_is_found_by_the_next_turn() -> None:
    """Prompt and answer are cached to the token: all but the last one drawn, which nobody computed."""
    paper = Paper()
    paper.add("turn", prompt=[1, 2, 3, 4, 5, 6], output=7)
    paper.run()
    paper.add("next", [1, 2, 3, 4, 5, 6, *paper.tokens["turn"], 9, 9], output=2)
    paper.run()
    assert paper.cached["next"] == 12


def test_evicted_pages_are_computed_again() -> None:
    paper = Paper(pages=8)
    paper.add("first", [1] * 20, output=2)
    paper.run()
    paper.add("flood", [2] * 30, output=2)
    paper.run()
    paper.add("again", [1] * 20, output=2)
    paper.run()
    assert paper.cached["again"] == 0
    assert paper.tokens["again"] == paper.tokens["first"]


def test_the_beginning_of_a_prompt_outlives_its_end() -> None:
    """Five of nine pages are taken: three blank ones, and the end of what the first left."""
    paper = Paper(pages=9)
    paper.add("first", [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3], output=2)
    paper.run()
    paper.add("flood", [2] * 17, output=2)
    paper.run()
    paper.add("again", [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3], output=2)
    paper.run()
    assert paper.cached["again"] == 16
