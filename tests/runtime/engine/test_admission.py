"""Requests that could never be served are refused with the arithmetic."""

import re

import pytest

from octavo_runtime.engine.admission import Limits, refusal
from octavo_runtime.messages import AddRequest, Sampling

LIMITS = Limits(max_model_len=100, pool_pages=4, page_size=16, vocab_size=50, max_queued=2)
GREEDY = Sampling(temperature=0.0)


def request(prompt: int, **fields: object) -> AddRequest:
    return AddRequest("r", [1] * prompt, GREEDY, 0, **fields)  # type: ignore[arg-type]  # a table of cases


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(request(1), id="smallest"),
        pytest.param(request(60, max_tokens=4), id="fills the pool"),
        pytest.param(request(63), id="length left open counts one token"),
        pytest.param(request(10, max_tokens=10, min_tokens=3, eos_ids=[2], stop_ids=[49]), id="ends"),
    ],
)
def test_admits_what_fits(wanted: AddRequest) -> None:
    assert refusal(wanted, LIMITS, queued=0) is None


@pytest.mark.parametrize(
    ("wanted", "kind", "param", "text"),
    [
        pytest.param(request(60, max_tokens=5), "never_fits", "max_tokens", "needs 5 blocks .* pool has 4", id="pool"),
        pytest.param(request(64), "never_fits", "max_tokens", "needs 5 blocks", id="pool, open length"),
        pytest.param(request(100), "never_fits", "prompt", "100 tokens.*context of 100", id="context"),
        pytest.param(request(0), "unsupported", "prompt", "empty", id="empty"),
        pytest.param(AddRequest("r", [50], GREEDY, 0), "unsupported", "prompt", r"50 .*\(0 … 49\)", id="vocabulary"),
        pytest.param(request(1, stop_ids=[-1]), "unsupported", "stop_token_ids", "-1", id="stop id"),
        pytest.param(request(1, n=2), "unsupported", "n", "'n' is not supported", id="n"),
        pytest.param(request(1, kind="embed"), "unsupported", "kind", "'kind'", id="embed"),
        pytest.param(request(1, logprobs=1), "unsupported", "logprobs", "'logprobs'", id="logprobs"),
        pytest.param(request(1, adapter="a"), "unsupported", "adapter", "'adapter'", id="adapter"),
        pytest.param(request(1, priority=1), "unsupported", "priority", "'priority'", id="priority"),
        pytest.param(request(1, kv_budget_tokens=1), "unsupported", "kv_budget_tokens", "'kv_budget", id="budget"),
    ],
)
def test_refuses_by_name_and_number(wanted: AddRequest, kind: str, param: str, text: str) -> None:
    error = refusal(wanted, LIMITS, queued=0)
    assert error is not None
    assert (error.kind, error.param) == (kind, param)
    assert re.search(text, error.message), error.message


def test_a_full_queue_says_when_to_come_back() -> None:
    error = refusal(request(1), LIMITS, queued=2)
    assert error is not None
    assert error.kind == "queue_full"
    assert error.retry_after_s == 1
    assert "the limit is 2" in error.message
