"""Several choices of one prompt, on an engine that the test plays: which choice gets what, and what the engine is told."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from octavo_runtime.messages import Abort, AddRequest, ErrorInfo, Output
from tests.runtime.server.parts import Parts, PlayedEngine, played_engine
from tests.runtime.text.tiny import byte_tokenizer

TOKENIZER = byte_tokenizer()
Script = Callable[[PlayedEngine], Awaitable[None]]


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


def asked(parts: Parts, script: Script, headers: dict[str, str] | None = None, **body: Any) -> httpx2.Response:
    """The answer to a completion while the engine does what the script says."""

    async def ask() -> httpx2.Response:
        async with played_engine(parts) as engine, parts.http() as client:
            body_bytes = {"model": "tiny", "prompt": "Hi", **body}
            answer = asyncio.create_task(client.post("/v1/completions", json=body_bytes, headers=headers))
            await script(engine)
            return await answer

    parts.heartbeat.progress("ready", 100, "")
    return asyncio.run(ask())


async def added(engine: PlayedEngine) -> AddRequest:
    message = await engine.receive()
    assert isinstance(message, AddRequest)
    return message


def test_choices_are_numbered_through_the_prompts_and_a_prompt_counts_once(parts: Parts) -> None:
    async def script(engine: PlayedEngine) -> None:
        first, second = await added(engine), await added(engine)
        assert (first.n, second.n) == (2, 2)
        await engine.send(
            Output(second.id, ids("d"), index=1, finish_reason="length"),
            Output(first.id, ids("a"), index=0, cached_tokens=1),
            Output(first.id, ids("bb"), index=1, finish_reason="stop"),
        )
        await engine.send(
            Output(second.id, ids("c"), index=0, finish_reason="length"),
            Output(first.id, ids("a"), index=0, finish_reason="length"),
        )

    answer = asked(parts, script, prompt=["xxx", "yyyy"], n=2).json()
    assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == [
        (0, "aa"),
        (1, "b"),
        (2, "c"),
        (3, "d"),
    ]
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["length", "stop", "length", "length"]
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (7, 6)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 1}


def test_a_stop_string_ends_its_choice_only(parts: Parts) -> None:
    async def script(engine: PlayedEngine) -> None:
        request = await added(engine)
        await engine.send(Output(request.id, ids("ab.c"), index=1), Output(request.id, ids("de"), index=0))
        assert await engine.receive() == Abort([], [(request.id, 1)])
        await engine.send(Output(request.id, ids("late"), index=1), Output(request.id, ids("f"), index=0))
        await engine.send(Output(request.id, ids("g"), index=0, finish_reason="length"))

    answer = asked(parts, script, n=2, stop=".").json()
    assert [(choice["text"], choice["finish_reason"], choice["stop_reason"]) for choice in answer["choices"]] == [
        ("defg", "length", None),
        ("ab", "stop", "."),
    ]
    assert answer["usage"]["completion_tokens"] == 4 + 3


def test_what_came_before_the_stop_was_noticed_is_dropped(parts: Parts) -> None:
    async def script(engine: PlayedEngine) -> None:
        request = await added(engine)
        begun = Output(request.id, ids("."), index=1), Output(request.id, ids("late"), index=1)
        await engine.send(*begun, Output(request.id, ids("."), index=0), Output(request.id, ids("late"), index=0))

    answer = asked(parts, script, n=2, stop=".").json()
    assert [choice["text"] for choice in answer["choices"]] == ["", ""]
    assert answer["usage"]["completion_tokens"] == 2


def test_the_last_choices_stop_ends_the_request(parts: Parts) -> None:
    async def script(engine: PlayedEngine) -> None:
        request = await added(engine)
        await engine.send(Output(request.id, ids("a"), index=0, finish_reason="length"))
        await engine.send(Output(request.id, ids("."), index=1))
        assert await engine.receive() == Abort([request.id])

    assert asked(parts, script, n=2, stop=".").status_code == 200


def test_streamed_choices_each_open_and_end_once(parts: Parts) -> None:
    async def script(engine: PlayedEngine) -> None:
        request = await added(engine)
        await engine.send(Output(request.id, ids("a"), index=0), Output(request.id, ids("."), index=1))
        await engine.send(Output(request.id, ids("b"), index=0, finish_reason="length"))

    answer = asked(parts, script, n=2, stop=".", stream=True, stream_options={"include_usage": True})
    *lines, done = answer.text.strip().split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    choices = [event["choices"][0] for event in events[:-1]]
    assert [(choice["index"], choice["text"], choice["finish_reason"]) for choice in choices] == [
        (0, "a", None),
        (1, "", "stop"),
        (0, "b", "length"),
    ]
    assert (events[-1]["choices"], events[-1]["usage"]["completion_tokens"], done) == ([], 3, "data: [DONE]")


def test_a_refusal_of_one_prompt_ends_the_others(parts: Parts) -> None:
    async def script(engine: PlayedEngine) -> None:
        first, second = await added(engine), await added(engine)
        refused = ErrorInfo("queue_full", "5 requests wait", retry_after_s=7)
        await engine.send(Output(second.id, finish_reason="error", error=refused))
        assert await engine.receive() == Abort([first.id])

    answer = asked(parts, script, prompt=["a", "b"], n=3)
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["error"]["code"]) == (
        503,
        "7",
        "queue_full",
    )
    exposed = parts.metrics.exposition().decode()
    for reason, count in (("error", 0.0), ("abort", 3.0)):
        assert (
            f'vllm:request_success_total{{engine="0",finished_reason="{reason}",model_name="tiny"}} {count}' in exposed
        )
    assert 'octavo_requests_refused_total{engine="0",kind="queue_full",model_name="tiny"} 1.0' in exposed


def test_what_the_engine_lost_counts_as_its_error_and_says_when_to_ask_again(parts: Parts) -> None:
    async def script(engine: PlayedEngine) -> None:
        await added(engine)
        parts.client.disconnect("the engine ended: SIGKILL")

    answer = asked(parts, script, n=2)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "engine_failed")
    assert int(answer.headers["retry-after"]) > 0
    exposed = parts.metrics.exposition().decode()
    assert 'vllm:request_success_total{engine="0",finished_reason="error",model_name="tiny"} 2.0' in exposed


def test_a_refusal_of_the_engine_has_the_id_that_the_engine_knew(parts: Parts) -> None:
    known = []

    async def script(engine: PlayedEngine) -> None:
        request = await added(engine)
        known.append(request.id.removesuffix("-0"))  # of the first prompt
        await engine.send(Output(request.id, finish_reason="error", error=ErrorInfo("queue_full", "5 requests wait")))

    assert asked(parts, script).headers.get_list("x-request-id") == known


def test_who_is_still_waiting_at_the_deadline_gets_504(parts: Parts) -> None:
    async def script(engine: PlayedEngine) -> None:
        request = await added(engine)
        assert request.deadline_s == 0.5
        late = ErrorInfo("deadline", "waited for 0.5 s, its deadline", "deadline_s")
        await engine.send(Output(request.id, finish_reason="error", error=late))

    answer = asked(parts, script, deadline_s=0.5, n=2)
    assert answer.status_code == 504
    assert answer.json() == {
        "error": {
            "message": "waited for 0.5 s, its deadline",
            "type": "server_error",
            "param": "deadline_s",
            "code": "deadline_exceeded",
        }
    }


def test_who_runs_at_the_deadline_gets_the_text_so_far(parts: Parts) -> None:
    async def script(engine: PlayedEngine) -> None:
        request = await added(engine)
        await engine.send(Output(request.id, ids("so far")))
        await engine.send(Output(request.id, finish_reason="abort", stop_reason="deadline"))

    choice = asked(parts, script, deadline_s=5).json()["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == ("so far", "abort", "deadline")


def test_a_request_is_measured_once_and_its_choices_each(parts: Parts) -> None:
    async def script(engine: PlayedEngine) -> None:
        request = await added(engine)
        await engine.send(*(Output(request.id, ids("a"), index=index) for index in range(3)))
        await engine.send(*(Output(request.id, ids("b"), index=index, finish_reason="length") for index in range(3)))

    asked(parts, script, n=3)
    exposed = parts.metrics.exposition().decode()
    labels = '{engine="0",model_name="tiny"}'
    for name, count in {
        "vllm:time_to_first_token_seconds": 1,
        "vllm:e2e_request_latency_seconds": 1,
        "vllm:request_prompt_tokens": 1,
        "vllm:request_params_n": 1,
        "vllm:request_generation_tokens": 3,
        "vllm:inter_token_latency_seconds": 3,
    }.items():
        assert f"{name}_count{labels} {count}.0" in exposed
    assert f"vllm:request_params_n_sum{labels} 3.0" in exposed
    assert parts.service.pace.estimate_s() == 0  # nothing is left behind


@pytest.mark.parametrize(
    ("headers", "changes", "salted"),
    [
        pytest.param({}, {}, False, id="neither"),
        pytest.param({"x-tenant": "a"}, {}, True, id="tenant"),
        pytest.param({}, {"cache_salt": "a"}, True, id="the client's salt"),
    ],
)
def test_the_engine_gets_the_tenants_salt(
    parts: Parts, headers: dict[str, str], changes: dict[str, Any], salted: bool
) -> None:
    salts: list[bytes] = []

    async def script(engine: PlayedEngine) -> None:
        request = await added(engine)
        salts.append(request.tenant_salt)
        await engine.send(Output(request.id, ids("a"), finish_reason="length"))

    asked(parts, script, headers, **changes)
    expected = parts.service.tenants.salt(list(headers.values()), changes.get("cache_salt"))
    assert (salts, bool(expected)) == ([expected], salted)
