"""Requests that could never be served are refused with the arithmetic, and what would wait too long with a time to come back."""

import dataclasses
import re

import msgspec
import pytest

from octavo_runtime.engine.admission import Limits, Queued, refusal
from octavo_runtime.messages import AddRequest, BeamSearch, ErrorInfo, Sampling

LIMITS = Limits(max_model_len=100, pool_pages=4, page_size=16, vocab_size=50, max_num_seqs=8, max_queued=2)
GREEDY = Sampling(temperature=0.0)
NAN = float("nan")
NOBODY = Queued(sequences=0, prompt_tokens=0, retry_after_s=7)


def request(prompt: int, **fields: object) -> AddRequest:
    return AddRequest("r", [1] * prompt, GREEDY, 0, **fields)  # type: ignore[arg-type]  # a table of cases


def refused(wanted: AddRequest, limits: Limits = LIMITS, queued: Queued = NOBODY) -> ErrorInfo:
    error = refusal(wanted, limits, queued)
    assert error is not None
    return error


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(request(1), id="smallest"),
        pytest.param(request(60, max_tokens=4), id="fills the pool"),
        pytest.param(request(63), id="length left open counts one token"),
        pytest.param(request(60, max_tokens=4, n=8), id="choices share the pool one after another"),
        pytest.param(request(10, max_tokens=10, min_tokens=3, eos_ids=[2], stop_ids=[49]), id="ends"),
        pytest.param(request(1, n=8), id="as many choices as slots"),
        pytest.param(request(1, beam=BeamSearch(8), n=8), id="as many beams as slots"),
        pytest.param(request(1, priority=-3, deadline_s=0.001, tenant_salt=b"salt"), id="urgent"),
    ],
)
def test_admits_what_fits(wanted: AddRequest) -> None:
    assert refusal(wanted, LIMITS, NOBODY) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("temperature", value) for value in (-0.1, NAN, float("inf"))),
        *(("top_p", value) for value in (0.0, 1.1, NAN)),
        ("top_k", -1),
        *(("min_p", value) for value in (-0.1, 1.1, NAN)),
    ],
)
def test_refuses_sampling_that_means_nothing(field: str, value: float) -> None:
    sampling = msgspec.structs.replace(Sampling(), **{field: value})
    error = refused(msgspec.structs.replace(request(1), sampling=sampling))
    assert (error.kind, error.param) == ("unsupported", field)
    assert error.message.startswith(f"'{field}' is {value}: give ")


@pytest.mark.parametrize(
    ("wanted", "kind", "param", "text"),
    [
        pytest.param(request(60, max_tokens=5), "never_fits", "max_tokens", "needs 5 blocks .* pool has 4", id="pool"),
        pytest.param(request(64), "never_fits", "prompt", "needs 5 blocks", id="pool, open length"),
        pytest.param(request(60, max_tokens=5, n=2), "never_fits", "max_tokens", "needs 5 blocks", id="pool, choices"),
        pytest.param(request(100), "never_fits", "prompt", "100 tokens.*context of 100", id="context"),
        pytest.param(request(0), "unsupported", "prompt", "empty", id="empty"),
        pytest.param(AddRequest("r", [50], GREEDY, 0), "unsupported", "prompt", r"50 .*\(0 … 49\)", id="vocabulary"),
        pytest.param(request(1, stop_ids=[-1]), "unsupported", "stop_token_ids", "-1", id="stop id"),
        pytest.param(request(1, eos_ids=[50]), "unsupported", "eos_ids", "50", id="eos id"),
        pytest.param(request(1, n=9), "unsupported", "n", "'n' is 9, from 1 to 8 .*--max-num-seqs", id="n"),
        pytest.param(request(1, n=0), "unsupported", "n", "'n' is 0", id="no choice"),
        pytest.param(request(1, beam=BeamSearch(9)), "unsupported", "beam_width", "'beam_width' is 9", id="wide beam"),
        pytest.param(
            request(1, beam=BeamSearch(2, 1e308)),
            "unsupported",
            "length_penalty",
            "from -10 to 10",
            id="power too high",
        ),
        pytest.param(
            request(1, beam=BeamSearch(2, float("nan"))), "unsupported", "length_penalty", "nan", id="no power"
        ),
        pytest.param(request(1, beam=BeamSearch(0)), "unsupported", "beam_width", "'beam_width' is 0", id="no beam"),
        pytest.param(
            request(1, beam=BeamSearch(2), n=3), "unsupported", "n", "'n' 3 is more than the 2 beams", id="n beams"
        ),
        pytest.param(request(1, deadline_s=0.0), "unsupported", "deadline_s", "more than 0", id="deadline passed"),
        pytest.param(request(1, deadline_s=-1.0), "unsupported", "deadline_s", "-1.0", id="negative deadline"),
        pytest.param(request(1, deadline_s=float("nan")), "unsupported", "deadline_s", "nan", id="no deadline at all"),
        pytest.param(request(1, kind="embed"), "unsupported", "kind", "'kind'", id="embed"),
        pytest.param(request(1, logprobs=1), "unsupported", "logprobs", "'logprobs'", id="logprobs"),
        pytest.param(request(1, adapter="a"), "unsupported", "adapter", "'adapter'", id="adapter"),
        pytest.param(request(1, kv_budget_tokens=1), "unsupported", "kv_budget_tokens", "'kv_budget", id="budget"),
    ],
)
def test_refuses_by_name_and_number(wanted: AddRequest, kind: str, param: str, text: str) -> None:
    error = refused(wanted)
    assert (error.kind, error.param) == (kind, param)
    assert re.search(text, error.message), error.message


def test_beams_need_twice_as_many_tokens_to_choose_from() -> None:
    limits = dataclasses.replace(LIMITS, vocab_size=9)
    assert refusal(request(1, beam=BeamSearch(4)), limits, NOBODY) is None
    assert (
        "needs 10 tokens to choose from, the vocabulary has 9"
        in refused(request(1, beam=BeamSearch(5)), limits).message
    )


def test_what_never_fits_is_told_in_blocks() -> None:
    limits = dataclasses.replace(LIMITS, max_model_len=200_000, pool_pages=4096)
    error = refused(request(81_000, max_tokens=920), limits)
    assert error.message.startswith(
        "needs 5,120 blocks (81,000 prompt + 920 output tokens, 16 a block), pool has 4,096"
    )


def test_output_is_counted_no_further_than_the_context() -> None:
    limits = dataclasses.replace(LIMITS, max_model_len=64)
    assert refusal(request(60, max_tokens=1000), limits, NOBODY) is None


def test_a_full_queue_says_when_to_come_back() -> None:
    error = refused(request(1), queued=Queued(2, 0, 7))
    assert (error.kind, error.retry_after_s) == ("queue_full", 7)
    assert "2 of at most 2 requests" in error.message
    assert "in 7 s" in error.message
    assert refusal(request(1), LIMITS, Queued(1, 0, 7)) is None


@pytest.mark.parametrize(
    ("wanted", "queued_tokens", "admitted"),
    [
        pytest.param(request(10), 10, True, id="to the limit"),
        pytest.param(request(11), 10, False, id="over it"),
        pytest.param(request(5, n=2), 10, True, id="choices to the limit"),
        pytest.param(request(5, n=3), 10, False, id="each choice counts the prompt"),
        pytest.param(request(5, beam=BeamSearch(3)), 10, False, id="each beam too"),
    ],
)
def test_prompt_tokens_that_wait_are_limited(wanted: AddRequest, queued_tokens: int, admitted: bool) -> None:
    limits = dataclasses.replace(LIMITS, max_queued_tokens=20)
    error = refusal(wanted, limits, Queued(1, queued_tokens, 7))
    assert (error is None) == admitted
    if error is not None:
        assert (error.kind, error.retry_after_s) == ("queue_full", 7)
        assert "the limit is 20 (--max-num-queued-tokens)" in error.message


def test_an_empty_queue_lets_in_a_prompt_above_the_limit() -> None:
    limits = dataclasses.replace(LIMITS, max_queued_tokens=20)
    assert refusal(request(50), limits, NOBODY) is None


def test_what_never_fits_is_not_told_to_come_back() -> None:
    assert refused(request(100), queued=Queued(9, 0, 7)).kind == "never_fits"
