"""When pages run out: who yields, what it keeps, and that everybody comes to an end however little memory there is."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_runtime.engine.counts import Counts
from octavo_runtime.engine.request import Request, Sequence
from octavo_runtime.messages import AddRequest, BeamSearch
from tests.runtime.engine.paper import GREEDY, Paper, alone

pytestmark = pytest.mark.usefixtures("each_depth")


def preempted(paper: Paper, limit: int = 100) -> list[str]:
    """Step until sequences yield: their names."""
    for _ in range(limit):
        before = paper.running
        paper.step()
        yielded = [name for name in before if name in paper.waiting]
        if yielded:
            return yielded
    raise AssertionError("nobody was preempted")


def crowded(pages: int, **requests: dict[str, int]) -> Paper:
    """All of them run; pages will lack, as they are longer than was believed."""
    paper = Paper(pages=pages, budget=128, context=100, caching=False)
    paper.mislead()
    for name, fields in requests.items():
        paper.add(name, **fields)
    paper.step()
    assert {name.split("/")[0] for name in paper.running} == set(requests)
    return paper


@pytest.mark.parametrize(
    ("requests", "victim"),
    [
        pytest.param(
            {"a": {"prompt": 16}, "b": {"prompt": 48}, "c": {"prompt": 32}},
            "c",
            id="the least work is lost",
        ),
        pytest.param(
            {"a": {"prompt": 16}, "b": {"prompt": 32}, "c": {"prompt": 32}},
            "c",
            id="the youngest of equals",
        ),
        pytest.param(
            {"a": {"prompt": 16}, "b": {"prompt": 48, "priority": 1}, "c": {"prompt": 32}},
            "b",
            id="the least urgent, whatever it loses",
        ),
        pytest.param(
            {"a": {"prompt": 16, "priority": 2}, "b": {"prompt": 48, "priority": 1}, "c": {"prompt": 32}},
            "a",
            id="even the oldest, if others are more urgent",
        ),
        pytest.param(
            {"a": {"prompt": 16}, "b": {"prompt": 48}},
            "b",
            id="never the first by rank",
        ),
    ],
)
def test_the_victim_is(requests: dict[str, dict[str, int]], victim: str) -> None:
    pages = sum(fields["prompt"] // 4 + 1 for fields in requests.values()) + 1
    paper = crowded(pages, **{name: {"output": 20, **fields} for name, fields in requests.items()})
    assert preempted(paper)[0] == victim


def test_shared_pages_are_no_lost_work() -> None:
    """Of the choices of one prompt each loses only what it has alone: less than a short stranger would."""
    paper = crowded(
        23,
        first={"prompt": 16, "output": 20},
        stranger={"prompt": 10, "output": 20},
        wide={"prompt": 48, "output": 20, "n": 2},
    )
    assert "wide" in preempted(paper)


def test_the_first_by_rank_runs_in_every_step() -> None:
    paper = Paper(pages=10)
    paper.mislead()
    paper.add("first", prompt=4, output=30)
    for name in "abcd":
        paper.add(name, prompt=4, output=20)
    paper.step()
    for generated in range(2, 31):
        paper.step()
        assert len(paper.tokens["first"]) == generated
    assert paper.stats.preemptions_total > 0
    paper.run()


def test_a_preempted_sequence_keeps_its_rank_and_its_tokens() -> None:
    paper = crowded(5, old={"prompt": 4, "output": 12}, young={"prompt": 4, "output": 8})
    assert preempted(paper) == ["young"]
    kept = list(paper.tokens["young"])
    assert kept
    paper.add("later", prompt=4, output=8)
    assert paper.waiting == ["young", "later"]
    paper.run()
    assert list(paper.finished) == ["old", "young", "later"]
    assert paper.tokens["young"][: len(kept)] == kept
    assert paper.tokens["young"] == alone("young", 4, 8)["young"]


def test_it_goes_on_from_pages_that_are_still_cached() -> None:
    paper = Paper(pages=7, budget=64)
    paper.mislead()
    paper.add("old", prompt=4, output=6)
    paper.add("young", prompt=14, output=6)
    assert preempted(paper) == ["young"]
    paper.run()
    again = [run for plan in paper.plans for run in plan.run if run.start and run.count > 1]
    assert again  # several tokens were computed anew, and not from the first one on
    assert all(run.start >= 8 for run in again)
    assert paper.cached["young"] == 0  # this tells of its prompt when it came


def test_what_is_computed_again_is_no_new_prompt() -> None:
    paper = crowded(5, old={"prompt": 4, "output": 12}, young={"prompt": 4, "output": 8})
    prompt_tokens = paper.stats.step_prompt_tokens
    while not paper.idle:
        paper.step()
        prompt_tokens += paper.stats.step_prompt_tokens
    assert paper.stats.preemptions_total > 0
    assert prompt_tokens == 8
    assert sum(plan.tokens for plan in paper.plans) > 8 + 11 + 7


def test_preemptions_are_told_at_most_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    counts, sequence = Counts(), Sequence(Request(AddRequest("r", [1], GREEDY, 0), 1, 0.0, b""), 0, [1])
    with caplog.at_level(logging.WARNING, logger="octavo.engine"):
        for now_s in (0.0, 3.0, 9.9, 10.0, 12.0):
            counts.preempted(sequence, 5, now_s)
    told = [record.getMessage().rsplit("; ", 1)[1] for record in caplog.records]
    assert told == ["preemptions so far: 1", "preemptions so far: 4"]
    assert counts.preemptions_total == 5


Asked = tuple[int, int, dict[str, object]]


@st.composite
def requests(draw: st.DrawFn) -> Asked:
    """(prompt, output, fields)"""
    prompt, output = draw(st.integers(1, 16)), draw(st.integers(1, 14))
    width = draw(st.sampled_from([1, 1, 1, 2, 3]))
    fields: dict[str, object] = {"priority": draw(st.integers(-1, 1)), "seed": draw(st.integers(0, 5))}
    if width > 1 and draw(st.booleans()):
        fields |= {"n": draw(st.integers(1, width)), "beam": BeamSearch(width), "eos_ids": [3]}
    else:
        fields["n"] = width
    return prompt, output, fields


def own_pages(prompt: int, output: int, fields: dict[str, object]) -> int:
    """Pages of a request at its end, when it shares with nobody."""
    beam = fields.get("beam")
    width = beam.width if isinstance(beam, BeamSearch) else fields["n"]
    assert isinstance(width, int)
    return width * -(-(prompt + output) // 4)


@pytest.mark.parametrize("load", [pytest.param(1.05, id="105 %"), pytest.param(3.0, id="300 %")])
@settings(max_examples=12, deadline=None)
@given(asked=st.lists(requests(), min_size=4, max_size=10), caching=st.booleans())
def test_every_request_finishes_above_capacity(load: float, asked: list[Asked], caching: bool) -> None:
    """Nobody is lost or starved: all end within a bounded number of steps, with the answer that they would get alone."""
    demand = sum(own_pages(*one) for one in asked)
    largest = max(-(-(prompt + output) // 4) for prompt, output, _ in asked)
    paper = Paper(pages=max(largest, int(demand / load)), seqs=12, budget=16, context=30, caching=caching)
    paper.mislead()
    for index, (prompt, output, fields) in enumerate(asked):
        paper.add(str(index), prompt, output, **fields)
    paper.run(limit=20 * sum(prompt + output for prompt, output, _ in asked) * 3)
    assert (paper.stats.blocks_used, paper.stats.running, paper.stats.waiting) == (0, 0, 0)
    want: dict[str, list[int]] = {}
    for index, (prompt, output, fields) in enumerate(asked):
        want |= alone(str(index), prompt, output, context=30, **fields)
    assert paper.tokens == want
