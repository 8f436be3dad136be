"""Which tokens of requests in 8 bits are compared with the full KV format, and when there are to be no more such requests."""

import logging
import random

import pytest

from octavo_runtime.engine.quality_guard import COMPARED_LEAST, QualityGuard
from octavo_runtime.engine.request import Request, Sequence
from octavo_runtime.messages import AddRequest, BeamSearch, Output, Sampling

GREEDY, DRAWN = Sampling(temperature=0.0), Sampling(temperature=1.0)


def guard(share: int | None = 100, limit: int = 90) -> QualityGuard:
    return QualityGuard(share, limit, random.Random(0))


def ended(sampling: Sampling = GREEDY, generated: int = 5, narrow: bool = True, **fields: object) -> Sequence:
    """A prompt of three tokens and what was generated: the token at each place is its number."""
    asked = AddRequest("r", [0, 1, 2], sampling, 0, tenant_salt=b"t", **fields)  # type: ignore[arg-type]  # a table
    return Sequence(Request(asked, 1, 0.0, b"", narrow=narrow), 0, list(range(3 + generated)))


def test_a_token_is_asked_for_again_after_those_that_stood_before_it() -> None:
    asked = guard().comparison(ended())
    assert asked is not None
    at = len(asked.prompt_ids)
    assert 3 <= at < 8
    assert (asked.prompt_ids, asked.max_tokens, asked.sampling) == (list(range(at)), 1, GREEDY)
    assert asked.tenant_salt == b"t"
    assert asked.priority > 10**6  # it comes last


@pytest.mark.parametrize(
    ("share", "sequence"),
    [
        pytest.param(None, ended(), id="no share"),
        pytest.param(100, ended(narrow=False), id="in the full format"),
        pytest.param(100, ended(DRAWN), id="drawn by chance"),
        pytest.param(100, ended(beam=BeamSearch(2)), id="beams"),
        pytest.param(100, ended(generated=0), id="nothing generated"),
        pytest.param(100, ended(min_tokens=5), id="endings were not allowed"),
    ],
)
def test_what_cannot_be_compared_is_not(share: int | None, sequence: Sequence) -> None:
    assert guard(share).comparison(sequence) is None


def compare(one: QualityGuard, same: bool) -> None:
    asked = one.comparison(ended())
    assert asked is not None
    answer = len(asked.prompt_ids) if same else 1000
    others = [Output("another", [7])]
    assert one.take([Output(asked.id, [answer], finish_reason="length"), *others]) == others


def test_too_many_other_tokens_end_it_and_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    one = guard(limit=75)
    with caplog.at_level(logging.WARNING):
        for index in range(COMPARED_LEAST):
            assert not one.objects
            compare(one, same=index % 3 > 0)
        assert one.objects
        compare(one, same=False)
    assert (one.compared_total, one.same_total) == (COMPARED_LEAST + 1, 13)
    (record,) = caplog.records
    assert (
        "of the newest 20 tokens of requests in 8 bits, 65 % are what the full KV format gives, less than 75 %"
        in record.message
    )


def test_few_others_do_not() -> None:
    one = guard(limit=75)
    for index in range(200):
        compare(one, same=index % 5 > 0)
    assert not one.objects


def test_only_few_comparisons_wait_at_once() -> None:
    one = guard()
    assert [one.comparison(ended()) is not None for _ in range(6)] == [True] * 4 + [False] * 2


def test_about_the_asked_share_is_compared() -> None:
    one, compared = guard(share=20), 0
    for _ in range(1000):
        asked = one.comparison(ended())
        if asked is not None:
            compared += 1
            one.take([Output(asked.id, [0])])
    assert 150 < compared < 250
