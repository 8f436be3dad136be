"""Beams against a search by brute force, alone and where pages or slots lack."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_runtime.messages import BeamSearch
from tests.runtime.engine.paper import Paper, reasons
from tests.runtime.engine.paper_runner import VOCABULARY, logprobs

pytestmark = pytest.mark.usefixtures("each_depth")

CONTEXT = 32


@dataclasses.dataclass(frozen=True)
class Text:
    tokens: tuple[int, ...]
    logprob: float
    reason: str

    def score(self, penalty: float) -> float:
        return self.logprob / math.pow(len(self.tokens), penalty)


def searched(prompt: list[int], output: int, eos: int | None, beam: BeamSearch) -> list[Text]:
    """All finished texts, best first: every live text is continued with the whole vocabulary, the best 2 · width of all
    continuations are looked at, those that end are finished, the best width of the others live on."""
    live: list[Text] = [Text((), 0.0, "")]
    finished: list[Text] = []
    limit = min(output, CONTEXT - len(prompt))
    for length in range(1, limit + 1):
        grown = [
            Text(
                (*text.tokens, token),
                text.logprob + logprob,
                "stop" if token == eos else "length" if length == limit else "",
            )
            for text in live
            for logprob, token in logprobs([*prompt, *text.tokens])
        ]
        grown.sort(key=lambda text: -text.logprob)
        finished += [text for text in grown[: 2 * beam.width] if text.reason]
        live = [text for text in grown[: 2 * beam.width] if not text.reason][: beam.width]
        if over(live, finished, limit if beam.length_penalty > 0 else length, beam):
            break
    return sorted(finished, key=lambda text: -text.score(beam.length_penalty))


def over(live: list[Text], finished: list[Text], length: int, beam: BeamSearch) -> bool:
    """No live text can overtake any of the best: at best it keeps its log-probability, over that many tokens."""
    scores = sorted((text.score(beam.length_penalty) for text in finished), reverse=True)
    if not live:
        return True
    return len(scores) >= beam.width and live[0].logprob / length**beam.length_penalty <= scores[beam.width - 1]


def answers(paper: Paper, name: str, n: int) -> list[tuple[list[int], str | None]]:
    names = [f"{name}/{index}" if index else name for index in range(n)]
    return [(paper.tokens[one], paper.finished[one].finish_reason) for one in names]


def expected(prompt: list[int], output: int, eos: int | None, beam: BeamSearch, n: int) -> list[tuple[list[int], str]]:
    return [(list(text.tokens), text.reason) for text in searched(prompt, output, eos, beam)[:n]]


prompts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=9)


@settings(max_examples=40, deadline=None)
@given(
    prompt=prompts,
    output=st.integers(1, 9),
    eos=st.sampled_from([None, 3]),
    width=st.integers(1, 5),
    penalty=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    data=st.data(),
)
def test_beams_are_those_of_a_search_by_brute_force(
    prompt: list[int], output: int, eos: int | None, width: int, penalty: float, data: st.DataObject
) -> None:
    n, beam = data.draw(st.integers(1, width)), BeamSearch(width, penalty)
    paper = Paper(context=CONTEXT, caching=data.draw(st.booleans()))
    paper.add("r", prompt, output, n=n, beam=beam, eos_ids=[] if eos is None else [eos])
    paper.run()
    assert answers(paper, "r", n) == expected(prompt, output, eos, beam, n)


def test_the_search_by_brute_force_uses_what_beams_are_for() -> None:
    """A wider search finds a likelier text than the greedy one, and EOS and length both end texts: or nothing was tested."""
    wider, reasons_seen = 0, set()
    for start in range(VOCABULARY):
        best = {width: searched([start], 6, 3, BeamSearch(width, 0.0)) for width in (1, 4)}
        wider += best[4][0].logprob > best[1][0].logprob
        reasons_seen |= {text.reason for text in best[4]}
    assert wider >= 3
    assert reasons_seen == {"stop", "length"}


@settings(max_examples=15, deadline=None)
@given(
    asked=st.lists(st.tuples(prompts, st.integers(1, 9), st.integers(1, 5)), min_size=2, max_size=4),
    pages=st.integers(5, 12),
    seqs=st.integers(5, 8),
)
def test_beams_do_not_depend_on_memory(asked: list[tuple[list[int], int, int]], pages: int, seqs: int) -> None:
    """Pages that hold one beam of each to its end, but not all beams at once."""
    paper = Paper(pages=pages, seqs=seqs, context=CONTEXT)
    paper.mislead()
    for index, (prompt, output, width) in enumerate(asked):
        paper.add(str(index), prompt, output, n=width, beam=BeamSearch(width), eos_ids=[3])
    paper.run()
    for index, (prompt, output, width) in enumerate(asked):
        assert answers(paper, str(index), width) == expected(prompt, output, 3, BeamSearch(width), width)
    assert paper.stats.blocks_used == 0


def test_beams_that_hold_each_others_pages_take_turns() -> None:
    """Three pages hold one text of twelve tokens at a time."""
    prompt = [1, 2, 3, 4, 5]
    paper = Paper(pages=3, context=12)
    paper.add("r", prompt, 7, n=3, beam=BeamSearch(3))
    paper.run()
    assert paper.stats.preemptions_total > 0
    assert answers(paper, "r", 3) == [
        (list(text.tokens), text.reason) for text in searched(prompt, 7, None, BeamSearch(3))[:3]
    ]


def test_all_text_comes_at_the_end() -> None:
    paper = Paper()
    paper.add("r", prompt=4, output=5, n=2, beam=BeamSearch(3))
    for _ in range(4):
        paper.step()
        assert not paper.tokens
    paper.step()
    assert reasons(paper) == {"r": "length", "r/1": "length"}
    assert all(len(tokens) == 5 for tokens in paper.tokens.values())


def test_beams_that_outgrow_the_pool_end_with_length() -> None:
    """Open length: each beam goes on until it fills the pool alone."""
    paper = Paper(pages=3, context=64)
    paper.add("r", prompt=5, n=2, beam=BeamSearch(2))
    paper.run()
    assert reasons(paper) == {"r": "length", "r/1": "length"}
    assert paper.stats.blocks_used == 0
    assert not paper.scheduler.has_work
