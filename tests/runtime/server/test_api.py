"""The OpenAI API through OpenAI's own client, against a real server."""

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

from tests.runtime.server.running import RunningServer, post, until
from tests.runtime.server.tiny_model import CONTEXT_TOKENS

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]
PROMPT_TOKENS = len("Hi") + 3  # <|user|>Hi<|end|><|assistant|>, a token a byte


def chat(client: openai.OpenAI, **changes: Any) -> ChatCompletion:
    fixed: dict[str, Any] = {
        "model": "tiny",
        "messages": HI,
        "max_tokens": 12,
        "temperature": 0,
        "extra_body": {"ignore_eos": True},
    }
    answer = client.chat.completions.create(**{**fixed, **changes})
    assert isinstance(answer, ChatCompletion)
    return answer


def test_a_chat_answer(client: openai.OpenAI) -> None:
    answer = chat(client)
    choice = answer.choices[0]
    assert (answer.object, answer.model, choice.index, choice.message.role) == (
        "chat.completion",
        "tiny",
        0,
        "assistant",
    )
    assert choice.finish_reason == "length"
    assert choice.message.content
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (PROMPT_TOKENS, 12)
    assert answer.usage.total_tokens == PROMPT_TOKENS + 12
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens in range(PROMPT_TOKENS)  # the last token is always computed


def test_a_streamed_chat_answer_is_the_same_text(client: openai.OpenAI) -> None:
    whole = chat(client).choices[0].message.content
    stream = client.chat.completions.create(
        model="tiny",
        messages=HI,
        max_tokens=12,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    chunks = list(stream)
    first, last, usage = chunks[0], chunks[-2], chunks[-1]
    assert (first.object, first.choices[0].delta.role, first.choices[0].delta.content) == (
        "chat.completion.chunk",
        "assistant",
        "",
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == whole
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-2]] == [None] * (len(chunks) - 2)
    assert last.choices[0].finish_reason == "length"
    assert (usage.choices, usage.usage and usage.usage.completion_tokens) == ([], 12)
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_stream_on_the_wire_ends_with_done_and_has_no_usage_unless_asked(server: RunningServer) -> None:
    status, body = post(
        server, "/v1/chat/completions", {"model": "tiny", "messages": HI, "max_tokens": 2, "stream": True}
    )
    events = body.strip().split("\n\n")
    assert status == 200
    assert events[-1] == "data: [DONE]"
    assert all("usage" not in json.loads(event.removeprefix("data: ")) for event in events[:-1])


def test_completions_of_several_prompts_come_in_their_order(client: openai.OpenAI) -> None:
    texts = ["a", "bb", "ccc"]
    together = client.completions.create(model="tiny", prompt=texts, max_tokens=5, temperature=0)
    alone = [client.completions.create(model="tiny", prompt=text, max_tokens=5, temperature=0) for text in texts]
    assert [choice.index for choice in together.choices] == [0, 1, 2]
    assert [choice.text for choice in together.choices] == [one.choices[0].text for one in alone]
    assert together.usage is not None
    assert (together.usage.prompt_tokens, together.object) == (6, "text_completion")


def test_a_completion_of_ids_is_that_of_their_text(client: openai.OpenAI, server: RunningServer) -> None:
    _, body = post(server, "/tokenize", {"prompt": "hello", "return_token_strs": True})
    tokens = json.loads(body)
    assert (tokens["count"], tokens["token_strs"], tokens["max_model_len"]) == (5, list("hello"), CONTEXT_TOKENS)
    by_ids = client.completions.create(model="tiny", prompt=tokens["tokens"], max_tokens=5, temperature=0)
    by_text = client.completions.create(model="tiny", prompt="hello", max_tokens=5, temperature=0)
    assert by_ids.choices[0].text == by_text.choices[0].text
    assert json.loads(post(server, "/detokenize", {"tokens": tokens["tokens"]})[1]) == {"prompt": "hello"}


def test_a_streamed_completion_says_which_prompt_each_piece_is_for(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="tiny", prompt=["a", "bb"], max_tokens=6, temperature=0)
    texts = {0: "", 1: ""}
    for chunk in client.completions.create(model="tiny", prompt=["a", "bb"], max_tokens=6, temperature=0, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == {choice.index: choice.text for choice in whole.choices}


def test_a_stop_string_ends_the_text_before_it_and_frees_the_request(
    client: openai.OpenAI, server: RunningServer
) -> None:
    text = chat(client, max_tokens=40).choices[0].message.content or ""
    stop = text[10:12]
    answer = chat(client, max_tokens=4000, stop=stop)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content == text[: text.index(stop)]
    until(lambda: server.gauge("vllm:num_requests_running") == 0)


def test_the_same_seed_gives_the_same_text_and_another_seed_another(client: openai.OpenAI) -> None:
    texts = [chat(client, temperature=1, max_tokens=30, seed=seed).choices[0].message.content for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_32_requests_at_once_get_what_each_gets_alone_and_leave_nothing(
    client: openai.OpenAI, server: RunningServer
) -> None:
    def ask(index: int) -> tuple[str | None, str]:
        messages = [{"role": "user", "content": "x" * (7 * index + 1)}]
        answer = chat(client, messages=messages, max_tokens=1 + 5 * index % 23)
        return answer.choices[0].message.content, answer.choices[0].finish_reason

    with ThreadPoolExecutor(32) as pool:
        together = list(pool.map(ask, range(32)))
    assert together == [ask(index) for index in range(32)]
    until(lambda: server.state()["in_flight"] == 0)
    until(lambda: server.gauge("octavo_kv_block_utilization") == 0)


def test_the_model_list(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "octavo"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("huge")


def test_another_models_name_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        chat(client, model="huge")
    assert caught.value.code == "model_not_found"


def test_a_prompt_beyond_the_context_is_refused_with_the_numbers(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=f"maximum context length is {CONTEXT_TOKENS} tokens") as caught:
        chat(client, messages=[{"role": "user", "content": "x" * CONTEXT_TOKENS}])
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")


def test_the_templates_refusal_is_the_clients(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="only system, user and assistant may speak"):
        chat(client, messages=[{"role": "tool", "content": "x"}])


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        pytest.param("/v1/chat/completions", b"{", 400, "the body is not JSON", id="not JSON"),
        pytest.param(
            "/v1/chat/completions", b'{"model": }', 400, "at character 10 (Expecting value): send one", id="position"
        ),
        pytest.param(
            "/v1/chat/completions", b"[" * 50_000, 400, "deeper than is read, which is less than 1000", id="nested"
        ),
        pytest.param("/v1/completions", b'{"model": "\xff"}', 400, "not UTF-8 at byte 11: encode", id="no text"),
        pytest.param(
            "/v1/completions",
            b'{"model": "tiny", "prompt": "a", "seed": ' + b"1" * 6000 + b"}",
            400,
            "a number of more than 4300 digits, which no field takes: shorten it",
            id="a number without end",
        ),
        pytest.param("/v1/chat/completions", b"[]", 400, "must be a JSON object", id="not an object"),
        pytest.param(
            "/v1/chat/completions", b'{"model": "tiny"}', 400, "messages: this field is required", id="missing"
        ),
        pytest.param("/v1/completions", b'{"model": "tiny", "prompt": [999]}', 400, "999 is not a token id", id="id"),
        pytest.param(
            "/v1/completions", b'{"model": "tiny", "prompt": ""}', 400, "at least one token", id="empty prompt"
        ),
        pytest.param("/detokenize", b'{"tokens": [-1]}', 400, "-1 is not a token id", id="detokenize"),
        pytest.param(
            "/v1/chat/completions",
            b'{"model": "tiny", "messages": [{"role": "user", "content": "\\ud83d"}]}',
            400,
            "messages[0].content: half of a UTF-16",
            id="half a character in content",
        ),
        pytest.param(
            "/v1/completions", b'{"model": "tiny", "prompt": "\xed\xa0\xbd"}', 400, "prompt: half of", id="in a prompt"
        ),
        pytest.param(
            "/v1/completions",
            b'{"model": "tiny", "prompt": "a", "stop": "\\uDE00"}',
            400,
            "stop: half of",
            id="in stop",
        ),
        pytest.param(
            "/v1/completions", b'{"model": "tiny", "prompt": "a", "\\ud83d": 1}', 400, "half of", id="in a field's name"
        ),
        pytest.param(
            "/v1/completions", b'{"model": "\\ud83d", "prompt": "a"}', 400, "model: half of", id="in the model's name"
        ),
        pytest.param(
            "/v1/completions",
            b'{"model": "tiny", "prompt": "a", "user": "\\ud83d"}',
            400,
            "user: half of",
            id="in user",
        ),
        pytest.param("/tokenize", '{"prompt": "\\ud83d"}'.encode("utf-16"), 400, "prompt: half of", id="in UTF-16"),
        pytest.param("/v1/images", b"{}", 404, "nothing at /v1/images", id="no such path"),
        pytest.param("/version", b"{}", 405, "Method Not Allowed", id="wrong method"),
    ],
)
def test_every_error_has_openais_body(server: RunningServer, path: str, body: bytes, status: int, text: str) -> None:
    got, answer = post(server, path, body)
    assert got == status
    error = json.loads(answer)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], text in error["message"]) == ("invalid_request_error", True), error


def test_errors_are_documented_as_they_are(server: RunningServer) -> None:
    with urllib.request.urlopen(f"{server.url}/openapi.json", timeout=60) as response:
        described = json.load(response)
    for path in ("/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"):
        answers = described["paths"][path]["post"]["responses"]
        assert set(answers) == {"200", "400", "default"}
        assert answers["400"]["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorBody")
    assert "422" not in described["paths"]["/v1/models/{name}"]["get"]["responses"]
    _, answer = post(server, "/v1/completions", b"{}")
    assert set(json.loads(answer)["error"]) == set(described["components"]["schemas"]["ErrorDetail"]["properties"])


def test_a_whole_character_in_escapes_is_text(server: RunningServer) -> None:
    status, body = post(server, "/tokenize", b'{"prompt": "\\ud83d\\ude00"}')
    assert (status, json.loads(body)["count"]) == (200, 4)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/tiny", "/version", "/live", "/ready", "/metrics"])
def test_head_is_answered_where_get_is(server: RunningServer, path: str) -> None:
    request = urllib.request.Request(server.url + path, method="HEAD")
    with urllib.request.urlopen(request, timeout=60) as response:
        assert (response.status, response.read()) == (200, b"")
