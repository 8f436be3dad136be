import json
from typing import Any

import pytest
from pydantic import ValidationError

from octavo_runtime.server.errors import ApiError, BadRequestError, from_validation
from octavo_runtime.server.schema import ChatRequest, CompletionRequest, TokenizeRequest, Wire

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
COMPLETION: dict[str, Any] = {"model": "m", "prompt": "Hi"}


def refusal(kind: type[Wire], body: object) -> ApiError:
    """The error a client gets for a body that must not be taken."""
    try:
        taken = kind.model_validate(body)
    except ApiError as error:
        return error
    except ValidationError as error:
        return from_validation([problem | {"loc": ("body", *problem["loc"])} for problem in error.errors()])
    raise AssertionError(f"was taken: {taken}")


@pytest.mark.parametrize(
    ("changes", "param", "text"),
    [
        pytest.param({"foo": 1}, "foo", "foo: unknown field", id="unknown field"),
        pytest.param({"model": None}, "model", "model: ", id="no model"),
        pytest.param({"messages": []}, "messages", "messages: ", id="no messages"),
        pytest.param({"messages": [{"role": "boss"}]}, "messages[0].role", "user", id="role"),
        pytest.param({"messages": [{"role": "user", "content": 3}]}, "messages[0].content", "string", id="content"),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}]},
            "messages[0].content",
            "part 1 is 'image_url'",
            id="image part",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content", "no text", id="part"
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": "x", "mood": 1}]},
            "messages[0].mood",
            "unknown",
            id="in a message",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": None}]}, "messages[0].content", "null is not", id="null content"
        ),
        pytest.param(
            {"messages": [{"role": "assistant"}]}, "messages[0].content", "field is required", id="absent content"
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "tool_calls", "not supported", id="tool calls"
        ),
        *(
            pytest.param({field: 10**30}, field, "less than", id=f"{field} beyond 63 bits")
            for field in ("top_k", "kv_budget_tokens", "seed")
        ),
        pytest.param({"temperature": 2.1}, "temperature", "less than or equal to 2", id="temperature too high"),
        pytest.param({"temperature": -0.1}, "temperature", "greater than or equal to 0", id="temperature negative"),
        pytest.param({"temperature": float("nan")}, "temperature", "finite", id="temperature NaN"),
        pytest.param({"temperature": "1"}, "temperature", "number", id="temperature as text"),
        pytest.param({"top_p": 0}, "top_p", "greater than 0", id="top_p 0"),
        pytest.param({"top_p": 1.01}, "top_p", "less than or equal to 1", id="top_p over 1"),
        pytest.param({"top_k": -2}, "top_k", "greater than or equal to -1", id="top_k"),
        pytest.param({"min_p": 1.5}, "min_p", "less than or equal to 1", id="min_p"),
        pytest.param({"max_tokens": 0}, "max_tokens", "greater than or equal to 1", id="max_tokens"),
        pytest.param({"max_completion_tokens": 0}, "max_completion_tokens", "greater", id="max_completion_tokens"),
        pytest.param({"max_tokens": 1.5}, "max_tokens", "integer", id="max_tokens fractional"),
        pytest.param({"min_tokens": -1}, "min_tokens", "greater than or equal to 0", id="min_tokens"),
        pytest.param({"seed": 2**63}, "seed", "less than", id="seed"),
        pytest.param({"stop": ["a", "b", "c", "d", "e"]}, "stop", "at most 4", id="five stops"),
        pytest.param({"stop": [""]}, "stop[0]", "at least 1 character", id="empty stop in a list"),
        pytest.param({"stop": ""}, "stop[0]", "at least 1 character", id="empty stop"),
        pytest.param({"stop_token_ids": ["a"]}, "stop_token_ids[0]", "integer", id="stop_token_ids"),
        pytest.param({"stream": 1}, "stream", "boolean", id="stream"),
        pytest.param(
            {"stream_options": {"include_usage": True}},
            "stream_options",
            "stream_options is for streamed",
            id="stream_options alone",
        ),
        pytest.param(
            {"max_tokens": 3, "max_completion_tokens": 4},
            "max_tokens",
            "max_tokens 3 and max_completion_tokens 4 say two limits of the same: give one of them",
            id="two limits",
        ),
        pytest.param(
            {"stream": True, "stream_options": {"x": 1}}, "stream_options.x", "unknown", id="in stream_options"
        ),
        pytest.param({"n": True}, "n", "integer", id="n as a boolean"),
        pytest.param({"n": 0}, "n", "greater than or equal to 1", id="no choice"),
        pytest.param({"best_of": 2}, "best_of", "not supported", id="best_of"),
        pytest.param({"use_beam_search": 1}, "use_beam_search", "boolean", id="use_beam_search as a number"),
        pytest.param({"beam_width": 0}, "beam_width", "greater than or equal to 1", id="no beam"),
        pytest.param({"length_penalty": float("inf")}, "length_penalty", "finite", id="endless length penalty"),
        pytest.param({"length_penalty": 10.5}, "length_penalty", "less than or equal to 10", id="a power too high"),
        pytest.param({"length_penalty": -400}, "length_penalty", "greater than", id="a power too low"),
        pytest.param({"priority": 2**63}, "priority", "less than", id="priority beyond 64 bits"),
        pytest.param({"priority": 0.5}, "priority", "integer", id="priority fractional"),
        pytest.param({"deadline_s": 0}, "deadline_s", "greater than 0", id="no time at all"),
        pytest.param({"deadline_s": float("inf")}, "deadline_s", "finite", id="endless time"),
        pytest.param({"cache_salt": ""}, "cache_salt", "at least 1 character", id="empty salt"),
        pytest.param({"cache_salt": "x" * 257}, "cache_salt", "at most 256 characters", id="long salt"),
        pytest.param({"logprobs": 0}, "logprobs", "give false", id="logprobs as a number"),
        pytest.param({"parallel_tool_calls": 1}, "parallel_tool_calls", "not supported", id="boolean as a number"),
        pytest.param(
            {"logprobs": True},
            "logprobs",
            "logprobs is not supported by this version; leave it out or give false",
            id="logprobs",
        ),
        pytest.param({"top_logprobs": 3}, "top_logprobs", "not supported", id="top_logprobs"),
        pytest.param({"frequency_penalty": 0.5}, "frequency_penalty", "not supported", id="frequency_penalty"),
        pytest.param({"presence_penalty": -1}, "presence_penalty", "not supported", id="presence_penalty"),
        pytest.param({"logit_bias": {"5": 1}}, "logit_bias", "not supported", id="logit_bias"),
        pytest.param({"tools": [{"type": "function"}]}, "tools", "not supported", id="tools"),
        pytest.param({"tool_choice": "required"}, "tool_choice", "not supported", id="tool_choice"),
        pytest.param(
            {"response_format": {"type": "json_object"}}, "response_format", "not supported", id="response_format"
        ),
        pytest.param({"structured_outputs": {}}, "structured_outputs", "leave it out", id="structured_outputs"),
    ],
)
def test_a_chat_request_that_cannot_be_honoured_is_refused_by_its_field(
    changes: dict[str, Any], param: str | None, text: str
) -> None:
    error = refusal(ChatRequest, CHAT | changes)
    assert (error.status, error.param) == (400, param)
    assert text in error.message


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"n": 1, "logprobs": False, "top_logprobs": 0, "logit_bias": {}}, id="neutral numbers"),
        pytest.param({"n": None, "stop": None, "temperature": None, "max_tokens": None, "seed": None}, id="nulls"),
        pytest.param(
            {
                "use_beam_search": None,
                "beam_width": None,
                "length_penalty": None,
                "priority": None,
                "deadline_s": None,
                "cache_salt": None,
            },
            id="nulls of extensions",
        ),
        pytest.param({"priority": -(2**63), "deadline_s": 0.001, "cache_salt": "x" * 256}, id="ends of extensions"),
        pytest.param(
            {"frequency_penalty": 0.0, "presence_penalty": 0, "repetition_penalty": 1.0}, id="neutral penalties"
        ),
        pytest.param({"tools": [], "tool_choice": "none", "response_format": {"type": "text"}}, id="no tools"),
        pytest.param({"user": "u", "safety_identifier": "s", "prompt_cache_key": "k"}, id="who asks"),
        pytest.param({"temperature": 0, "top_p": 1, "top_k": -1, "min_p": 0, "seed": -1}, id="ends of ranges"),
        pytest.param(
            {"stop": "x", "max_tokens": 1, "stream": True, "stream_options": {"include_usage": True}}, id="streamed"
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "content": "a", "refusal": None, "tool_calls": None}]},
            id="echoed answer",
        ),
    ],
)
def test_values_that_change_nothing_are_taken(changes: dict[str, Any]) -> None:
    assert ChatRequest.model_validate(CHAT | changes).model == "m"


def test_text_parts_become_lines() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    request = ChatRequest.model_validate(CHAT | {"messages": [{"role": "user", "content": parts}]})
    assert request.messages[0].content == "one\ntwo"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"max_tokens": 5}, "max_tokens"),
        ({"max_completion_tokens": 5}, "max_completion_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "max_completion_tokens"),
    ],
)
def test_the_limit_of_output_has_two_names(changes: dict[str, Any], name: str) -> None:
    request = ChatRequest.model_validate(CHAT | changes)
    assert (request.output_limit(), request.output_limit_name) == (5, name)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        pytest.param("a", ["a"], id="text"),
        pytest.param(["a", "b"], ["a", "b"], id="texts"),
        pytest.param([1, 2], [[1, 2]], id="ids"),
        pytest.param([[1], [2, 3]], [[1], [2, 3]], id="lists of ids"),
    ],
)
def test_prompts_of_all_forms_become_a_list(prompt: object, prompts: list[str] | list[list[int]]) -> None:
    assert CompletionRequest.model_validate(COMPLETION | {"prompt": prompt}).prompt == prompts


@pytest.mark.parametrize(
    ("changes", "param", "text"),
    [
        pytest.param({"prompt": []}, "prompt", "none may be empty", id="no prompt"),
        pytest.param({"prompt": [[]]}, "prompt", "none may be empty", id="empty ids"),
        pytest.param({"prompt": ["a", 1]}, "prompt", "list of texts", id="mixed"),
        pytest.param({"prompt": [True]}, "prompt", "list of texts", id="booleans"),
        pytest.param({"prompt": None}, "prompt", "list of texts", id="null"),
        pytest.param({"prompt": ["a"] * 1025}, "prompt", "1025 prompts are more than 1024", id="too many"),
        pytest.param({"echo": True}, "echo", "not supported", id="echo"),
        pytest.param({"suffix": "x"}, "suffix", "not supported", id="suffix"),
        pytest.param({"best_of": 2}, "best_of", "not supported", id="best_of"),
        pytest.param({"logprobs": 1}, "logprobs", "not supported", id="logprobs"),
        pytest.param({"logprobs": 0}, "logprobs", "not supported", id="logprobs of the chosen tokens only"),
        pytest.param({"echo": 0}, "echo", "not supported", id="echo as a number"),
        pytest.param({"messages": []}, "messages", "unknown field", id="a chat field"),
    ],
)
def test_a_completion_that_cannot_be_honoured_is_refused_by_its_field(
    changes: dict[str, Any], param: str, text: str
) -> None:
    error = refusal(CompletionRequest, COMPLETION | changes)
    assert (error.status, error.param) == (400, param)
    assert text in error.message


def test_tokenize_takes_either_prompt_or_messages() -> None:
    assert refusal(TokenizeRequest, {}).message == "give either prompt or messages"
    assert (
        "either prompt or messages" in refusal(TokenizeRequest, {"prompt": "a", "messages": CHAT["messages"]}).message
    )


def test_several_problems_are_told_at_once_and_long_inputs_are_cut() -> None:
    error = refusal(ChatRequest, CHAT | {"temperature": 9, "top_k": "x" * 1000})
    assert "temperature: " in error.message
    assert "top_k: " in error.message
    assert len(error.message) < 500


def test_the_body_is_openais() -> None:
    error = BadRequestError("no", param="n", code="unsupported")
    assert json.loads(error.body()) == {
        "error": {"message": "no", "type": "invalid_request_error", "param": "n", "code": "unsupported"}
    }
