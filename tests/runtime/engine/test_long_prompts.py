"""While most prompts are long, half as many sequences run at once; a number that was set stays."""

import pytest

from octavo_runtime.engine.long_prompts import LongPrompts
from tests.runtime.engine.paper import Paper

SHORT, LONG = 8192, 8193


@pytest.mark.parametrize(
    ("prompts", "prevail"),
    [
        pytest.param([], False, id="none"),
        pytest.param([LONG] * 7, False, id="too few to tell"),
        pytest.param([LONG] * 8, True, id="all long"),
        pytest.param([SHORT] * 8, False, id="all of 8k"),
        pytest.param([LONG, SHORT] * 10, False, id="half of them"),
        pytest.param([LONG, SHORT] * 10 + [LONG], True, id="more than half"),
        pytest.param([LONG] * 100 + [SHORT] * 32, False, id="the last 64 count"),
        pytest.param([SHORT] * 100 + [LONG] * 33, True, id="and only they"),
    ],
)
def test_most_of_the_last_prompts_decide(prompts: list[int], prevail: bool) -> None:
    rule = LongPrompts()
    for prompt in prompts:
        rule.saw(prompt)
    assert rule.prevail == prevail


@pytest.mark.parametrize(
    ("automatic", "seqs", "allowed"),
    [
        pytest.param(True, 8, 4, id="automatic: half"),
        pytest.param(True, 1, 1, id="never none"),
        pytest.param(False, 8, 8, id="set: untouched"),
    ],
)
def test_halves_the_automatic_limit_and_shows_it(automatic: bool, seqs: int, allowed: int) -> None:
    paper = Paper(pages=30_000, seqs=seqs, context=10_000, halve_for_long_prompts=automatic)
    assert paper.scheduler.max_num_seqs == seqs
    for index in range(8):
        paper.add(f"long {index}", prompt=LONG, output=1)
    assert paper.scheduler.max_num_seqs == allowed
    assert paper.scheduler.plan() is not None
    assert len(paper.running) == allowed
