import dataclasses
import sys
from typing import Any

import pytest

from octavo_runtime.messages import AddRequest, BeamSearch, Sampling
from octavo_runtime.server.choices import check_total
from octavo_runtime.server.errors import BadRequestError
from octavo_runtime.server.options import ModelLimits, Origin, add_request, check_prompt_length
from octavo_runtime.server.prompt import encode
from octavo_runtime.server.schema import ChatRequest, Options
from tests.runtime.text.tiny import byte_tokenizer

LIMITS = ModelLimits(
    max_model_len=100, model_context=100, max_num_seqs=8, vocab_size=50, eos_ids=(2, 3), sampling_defaults={}
)
CUT = dataclasses.replace(LIMITS, model_context=400)
MESSAGE = {"role": "user", "content": "Hi"}
AUTHORS = ModelLimits(100, 100, 8, 50, (2,), {"temperature": 0.6, "top_p": 0.9, "top_k": 20.0, "min_p": 0.05})


def plan(
    limits: ModelLimits = LIMITS, prompt: int = 10, default_tokens: int | None = None, **changes: Any
) -> AddRequest:
    options = Options.model_validate({"model": "m", **changes})
    return add_request(Origin("id", 77, b"salt"), options, [1] * prompt, limits, default_tokens)


@pytest.mark.parametrize(
    ("changes", "limits", "sampling"),
    [
        pytest.param({}, LIMITS, Sampling(1.0, 1.0, 0, 0.0), id="OpenAI's defaults"),
        pytest.param({}, AUTHORS, Sampling(0.6, 0.9, 20, 0.05), id="the author's defaults"),
        pytest.param({"temperature": 1, "top_k": 0}, AUTHORS, Sampling(1.0, 0.9, 0, 0.05), id="the client's win"),
        pytest.param(
            {"temperature": 0, "top_p": 0.5}, AUTHORS, Sampling(temperature=0.0), id="greedy needs nothing else"
        ),
        pytest.param({"temperature": 1e-6}, LIMITS, Sampling(temperature=0.0), id="nearly greedy"),
        pytest.param({"temperature": 0.001}, LIMITS, Sampling(temperature=0.01), id="very low"),
        pytest.param({"top_k": -1}, LIMITS, Sampling(), id="top_k off"),
    ],
)
def test_sampling(changes: dict[str, Any], limits: ModelLimits, sampling: Sampling) -> None:
    assert plan(limits, **changes).sampling == sampling


@pytest.mark.parametrize(
    ("changes", "seed"),
    [
        pytest.param({}, 77, id="none"),
        pytest.param({"seed": -1}, 77, id="-1 is none"),
        pytest.param({"seed": 0}, 0, id="zero is a seed"),
        pytest.param({"seed": 5}, 5, id="the client's"),
        pytest.param({"seed": -2}, 2**64 - 2, id="negative"),
    ],
)
def test_seed(changes: dict[str, Any], seed: int) -> None:
    assert plan(**changes).seed == seed


@pytest.mark.parametrize(
    ("changes", "default_tokens", "max_tokens"),
    [
        pytest.param({}, None, None, id="chat: until the context is full"),
        pytest.param({}, 16, 16, id="completions: 16"),
        pytest.param({"max_tokens": 7}, 16, 7, id="the client's"),
        pytest.param({"max_tokens": 100}, None, 90, id="cut to what the context leaves"),
    ],
)
def test_output_limit(changes: dict[str, Any], default_tokens: int | None, max_tokens: int | None) -> None:
    assert plan(default_tokens=default_tokens, **changes).max_tokens == max_tokens


@pytest.mark.parametrize(
    ("limits", "changes", "param", "says"),
    [
        pytest.param(
            LIMITS,
            {"max_tokens": 101},
            "max_tokens",
            "max_tokens 101 is more than the model's own context of 100 tokens: give at most 100",
            id="more than the model's context",
        ),
        pytest.param(LIMITS, {"max_tokens": 10**23}, "max_tokens", "context of 100 tokens", id="beyond 63 bits"),
        pytest.param(
            CUT,
            {"max_tokens": 101},
            "max_tokens",
            "max_tokens 101 is more than the context of 100 tokens that --max-model-len sets; the model's own has 400: give at "
            "most 100, or serve with a larger --max-model-len",
            id="more than is served of it",
        ),
        pytest.param(
            LIMITS,
            {"max_tokens": 5, "min_tokens": 6},
            "min_tokens",
            "min_tokens 6 is more than the 5 tokens that may be generated: lower it to at most 5, or raise max_tokens",
            id="min over max",
        ),
        pytest.param(
            LIMITS,
            {"min_tokens": 91},
            "min_tokens",
            "lower it to at most 90, or shorten the prompt",
            id="min over what the context leaves",
        ),
        pytest.param(LIMITS, {"min_tokens": 10**23}, "min_tokens", "lower it to at most 90", id="min beyond 63 bits"),
        pytest.param(LIMITS, {"n": 10**23}, "n", "more than --max-num-seqs 8", id="n beyond 63 bits"),
        pytest.param(
            LIMITS, {"stop_token_ids": [50]}, "stop_token_ids", "0 to 49", id="stop id outside the vocabulary"
        ),
        pytest.param(LIMITS, {"stop_token_ids": [-1]}, "stop_token_ids", "0 to 49", id="negative stop id"),
    ],
)
def test_limits_that_need_the_model(limits: ModelLimits, changes: dict[str, Any], param: str, says: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        plan(limits, **changes)
    assert caught.value.param == param
    assert says in caught.value.message


def test_the_limit_is_named_as_the_client_did() -> None:
    asked = ChatRequest.model_validate({"model": "m", "messages": [MESSAGE], "max_completion_tokens": 101})
    with pytest.raises(BadRequestError, match=r"^max_completion_tokens 101 is more than") as caught:
        add_request(Origin("id", 77), asked, [1], LIMITS, None)
    assert caught.value.param == "max_completion_tokens"


def test_end_tokens_unless_ignored() -> None:
    assert plan().eos_ids == [2, 3]
    ignoring = plan(ignore_eos=True, stop_token_ids=[9])
    assert (ignoring.eos_ids, ignoring.stop_ids) == ([], [9])


def test_what_only_the_engine_decides_by_goes_to_it() -> None:
    plain = plan()
    assert (plain.id, plain.tenant_salt) == ("id", b"salt")
    assert (plain.n, plain.beam, plain.priority, plain.deadline_s) == (1, None, 0, None)
    asked = plan(n=3, priority=-5, deadline_s=1.5, kv_budget_tokens=512)
    assert (asked.n, asked.beam, asked.priority, asked.deadline_s, asked.kv_budget_tokens) == (3, None, -5, 1.5, 512)


@pytest.mark.parametrize(
    ("changes", "number", "beam"),
    [
        pytest.param({}, 1, BeamSearch(1), id="one beam is the likeliest text"),
        pytest.param({"n": 3}, 3, BeamSearch(3), id="as wide as n"),
        pytest.param({"n": 3, "beam_width": 5}, 3, BeamSearch(5), id="wider than n"),
        pytest.param({"length_penalty": 0}, 1, BeamSearch(1, 0.0), id="length penalty"),
        pytest.param({"temperature": 0, "top_p": 1, "top_k": -1, "min_p": 0}, 1, BeamSearch(1), id="neutral sampling"),
    ],
)
def test_beams(changes: dict[str, Any], number: int, beam: BeamSearch) -> None:
    planned = plan(AUTHORS, use_beam_search=True, **changes)
    assert (planned.n, planned.beam, planned.sampling) == (number, beam, Sampling(temperature=0.0))


@pytest.mark.parametrize(
    ("changes", "param", "text"),
    [
        pytest.param({"n": 9}, "n", "n 9 is more than --max-num-seqs 8", id="n over what runs at once"),
        pytest.param({"n": 2, "temperature": 0}, "n", "the same text 2 times", id="the same text twice"),
        pytest.param({"n": 2, "temperature": 1e-6}, "n", "the same text", id="nearly greedy"),
        pytest.param({"beam_width": 4}, "beam_width", "for beam search only", id="width without beams"),
        pytest.param(
            {"length_penalty": 2}, "length_penalty", "for beam search only", id="length penalty without beams"
        ),
        pytest.param({"use_beam_search": True, "n": 9}, "n", "n 9 is more than", id="too many beams"),
        pytest.param(
            {"use_beam_search": True, "n": 3, "beam_width": 2}, "n", "raise beam_width", id="fewer beams than n"
        ),
        pytest.param(
            {"use_beam_search": True, "beam_width": 9}, "beam_width", "beam_width 9 is more than", id="beams too wide"
        ),
        pytest.param({"use_beam_search": True, "stream": True}, "stream", "set stream to false", id="streamed beams"),
        pytest.param(
            {"use_beam_search": True, "temperature": 0.5}, "temperature", "0.5 means nothing", id="temperature"
        ),
        pytest.param({"use_beam_search": True, "top_p": 0.5}, "top_p", "leave it out or give 1", id="top_p"),
        pytest.param({"use_beam_search": True, "top_k": 4}, "top_k", "leave it out or give 0", id="top_k"),
        pytest.param({"use_beam_search": True, "min_p": 0.1}, "min_p", "leave it out or give 0", id="min_p"),
    ],
)
def test_choices_that_cannot_be_are_refused_by_their_field(changes: dict[str, Any], param: str, text: str) -> None:
    with pytest.raises(BadRequestError, match=text) as caught:
        plan(**changes)
    assert caught.value.param == param


def test_choices_of_all_prompts_together_are_limited() -> None:
    options = Options.model_validate({"model": "m", "n": 8})
    check_total(512, options)
    with pytest.raises(BadRequestError, match="513 prompts with n 8 are 4104 choices, more than 4096") as caught:
        check_total(513, options)
    assert caught.value.param == "n"


def test_a_number_that_python_would_not_print_is_refused_as_others_are() -> None:
    longest = 10 ** (sys.get_int_max_str_digits() - 1)
    with pytest.raises(BadRequestError, match="choices, more than 4096"):
        check_total(513, Options.model_validate({"model": "m", "n": longest}))


def test_as_many_choices_as_run_at_once_are_taken() -> None:
    assert plan(n=8).n == 8
    assert plan(n=1, temperature=0, length_penalty=1).n == 1


def test_a_prompt_that_fills_the_context_is_refused_with_the_numbers() -> None:
    options = ChatRequest.model_validate(
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 20}
    )
    check_prompt_length(99, options, 100, "messages")
    with pytest.raises(BadRequestError) as caught:
        check_prompt_length(100, options, 100, "messages")
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.message == (
        "This model's maximum context length is 100 tokens. However, you requested 120 tokens "
        "(100 in the messages, 20 in the completion). Please reduce the length of the messages or completion."
    )


def test_a_text_refused_by_its_characters_alone_is_told_a_lower_bound() -> None:
    tokenizer = byte_tokenizer()
    text = "x" * (100 * tokenizer.max_token_chars)
    with pytest.raises(BadRequestError, match=r"requested at least 101 tokens \(at least 100 in the prompt, 1 in"):
        encode(tokenizer, text, False, Options.model_validate({"model": "m"}), 100, "prompt")
