"""n, beams and stop strings through OpenAI's client, against a real server."""

from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

from tests.runtime.server.running import RunningServer, until
from tests.runtime.server.streams import Stream

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]
PROMPT_TOKENS = len("Hi") + 3  # <|user|>Hi<|end|><|assistant|>, a token a byte
TOKENS = 24


def chat(client: openai.OpenAI, extra: dict[str, Any] | None = None, **changes: Any) -> ChatCompletion:
    fixed: dict[str, Any] = {"model": "tiny", "messages": HI, "max_tokens": TOKENS, "seed": 7}
    answer = client.chat.completions.create(**{**fixed, **changes}, extra_body={"ignore_eos": True, **(extra or {})})
    assert isinstance(answer, ChatCompletion)
    return answer


def texts(answer: ChatCompletion) -> list[str]:
    assert [choice.index for choice in answer.choices] == list(range(len(answer.choices)))
    return [choice.message.content or "" for choice in answer.choices]


def is_idle(server: RunningServer) -> bool:
    return server.state()["in_flight"] == 0 and server.gauge("octavo_kv_block_utilization") == 0


def test_three_choices_are_what_their_seeds_give_alone(client: openai.OpenAI, server: RunningServer) -> None:
    answer = chat(client, n=3)
    assert texts(answer) == [texts(chat(client, seed=seed))[0] for seed in (7, 8, 9)]
    assert len(set(texts(answer))) == 3
    assert {choice.finish_reason for choice in answer.choices} == {"length"}
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (PROMPT_TOKENS, 3 * TOKENS)
    assert until(lambda: is_idle(server))


def test_three_streamed_choices_are_the_same_texts(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="tiny",
        messages=HI,
        max_tokens=TOKENS,
        seed=7,
        n=3,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    *chunks, last = list(stream)
    pieces: dict[int, list[str]] = {0: [], 1: [], 2: []}
    ends: list[int] = []
    for chunk in chunks:
        choice = chunk.choices[0]
        pieces[choice.index].append(choice.delta.content or "")
        ends += [choice.index] if choice.finish_reason else []
    assert [chunk.choices[0].index for chunk in chunks if chunk.choices[0].delta.role == "assistant"] == [0, 1, 2]
    assert sorted(ends) == [0, 1, 2]
    assert ["".join(pieces[index]) for index in range(3)] == texts(chat(client, n=3))
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (PROMPT_TOKENS, 3 * TOKENS)


def test_choices_of_several_prompts_follow_each_other(client: openai.OpenAI) -> None:
    fixed: dict[str, Any] = {"model": "tiny", "max_tokens": 9, "seed": 1, "n": 2}
    together = client.completions.create(prompt=["a", "bb"], **fixed)
    alone = [client.completions.create(prompt=prompt, **fixed) for prompt in ("a", "bb")]
    assert [choice.index for choice in together.choices] == [0, 1, 2, 3]
    assert [choice.text for choice in together.choices] == [choice.text for one in alone for choice in one.choices]
    assert together.usage is not None
    assert together.usage.prompt_tokens == 3


@pytest.mark.parametrize("streamed", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")])
def test_a_stop_string_ends_one_choice_and_not_the_others(
    client: openai.OpenAI, server: RunningServer, streamed: bool
) -> None:
    free = texts(chat(client, n=3))
    stop = next(pair for pair in pairs(free[1]) if pair not in free[0] + free[2])
    expected = [free[0], free[1][: free[1].index(stop)], free[2]]
    if streamed:
        got = ["", "", ""]
        for chunk in client.chat.completions.create(
            model="tiny",
            messages=HI,
            max_tokens=TOKENS,
            seed=7,
            n=3,
            stop=stop,
            stream=True,
            extra_body={"ignore_eos": True},
        ):
            got[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        assert got == expected
    else:
        answer = chat(client, n=3, stop=stop)
        assert texts(answer) == expected
        assert [choice.finish_reason for choice in answer.choices] == ["length", "stop", "length"]
    assert until(lambda: is_idle(server))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"n": 4}, id="streamed"),
        pytest.param({"n": 4, "stream": False}, id="whole"),
        pytest.param({"n": 2, "use_beam_search": True, "beam_width": 4, "stream": False}, id="beams"),
    ],
)
def test_a_client_that_goes_away_takes_all_its_choices_with_it(server: RunningServer, options: dict[str, Any]) -> None:
    with Stream(server, **options) as stream:
        until(lambda: server.gauge("vllm:num_requests_running") == 4)
        stream.kill()
        until(lambda: is_idle(server))
    assert server.gauge("vllm:num_requests_running") == 0


def test_beams_come_best_first_and_one_beam_is_greedy(client: openai.OpenAI, server: RunningServer) -> None:
    answer = chat(client, {"use_beam_search": True, "beam_width": 4}, n=2, temperature=0)
    assert len(set(texts(answer))) == 2
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (PROMPT_TOKENS, 2 * TOKENS)
    assert texts(chat(client, {"use_beam_search": True, "beam_width": 4}))[0] == texts(answer)[0]
    assert texts(chat(client, {"use_beam_search": True})) == texts(chat(client, temperature=0))
    assert until(lambda: is_idle(server))


@pytest.mark.parametrize(
    ("changes", "extra", "param"),
    [
        pytest.param({"n": 65}, {}, "n", id="more than run at once"),
        pytest.param({"n": 2, "temperature": 0}, {}, "n", id="greedy choices"),
        pytest.param({"stream": True}, {"use_beam_search": True}, "stream", id="streamed beams"),
        pytest.param({"temperature": 0.5}, {"use_beam_search": True}, "temperature", id="beams that draw"),
        pytest.param({}, {"length_penalty": 2.0}, "length_penalty", id="length penalty without beams"),
    ],
)
def test_choices_that_cannot_be_are_refused_by_name(
    client: openai.OpenAI, changes: dict[str, Any], extra: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, extra, **changes)
    assert caught.value.param == param


def pairs(text: str) -> list[str]:
    """Every two characters in a row, but not at the very start."""
    return [text[begin : begin + 2] for begin in range(3, len(text) - 1)]
