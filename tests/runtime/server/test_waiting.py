"""Who waits for how long, and who shares cached prefixes: a server that runs one sequence at a time and knows its tenants."""

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion

from tests.runtime.server.running import RunningServer, running_server, until
from tests.runtime.server.streams import Stream

OUTPUT_TOKENS = 3000  # of one that takes long, and fits the pool
LONG = "once upon a time there was " * 8  # several KV pages


@pytest.fixture(scope="module")
def server(tiny_chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One at a time, with tenants, and a pool that holds half of the model's context."""
    folder = tmp_path_factory.mktemp("narrow-server")
    secret = folder / "secret"
    secret.write_text("a secret\n")
    flags = ["--max-num-seqs", "1", "--tenant-header", "X-Tenant", "--tenant-secret-file", str(secret), "--audit"]
    with running_server(tiny_chat_model, folder, *flags, "--kv-cache-memory", "1Mi") as running:
        yield running


def ask(client: openai.OpenAI, content: str = "Hi", tenant: str | None = None, **extra: Any) -> ChatCompletion:
    return client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": content}],
        max_tokens=4,
        temperature=0,
        extra_body={"ignore_eos": True, **extra},
        extra_headers={} if tenant is None else {"X-Tenant": tenant},
    )


def cached_tokens(answer: ChatCompletion) -> int:
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    return answer.usage.prompt_tokens_details.cached_tokens or 0


@contextlib.contextmanager
def busy(server: RunningServer) -> Iterator[Stream]:
    """The one place is taken."""
    with Stream(server, OUTPUT_TOKENS) as stream:
        yield stream.begin()
        stream.kill()
    until(lambda: server.state()["in_flight"] == 0)


def until_waiting(server: RunningServer, number: int) -> None:
    until(lambda: server.gauge("vllm:num_requests_waiting") == number)


def test_lower_priorities_come_first(client: openai.OpenAI, server: RunningServer) -> None:
    ended: dict[int, float] = {}

    def ask_with(priority: int) -> None:
        ask(client, priority=priority, max_tokens=100)
        ended[priority] = time.monotonic()

    with ThreadPoolExecutor() as pool:
        with busy(server):
            asked: list[Future[None]] = []
            for priority in (5, 0, -5):
                asked.append(pool.submit(ask_with, priority))
                until_waiting(server, len(asked))
        for one in asked:
            one.result()
    assert sorted(ended, key=lambda priority: ended[priority]) == [-5, 0, 5]


def test_a_deadline_that_passes_while_waiting_is_504(client: openai.OpenAI, server: RunningServer) -> None:
    with busy(server), pytest.raises(openai.APIStatusError) as caught:
        ask(client, deadline_s=0.2)
    assert (caught.value.status_code, caught.value.code, caught.value.param) == (504, "deadline_exceeded", "deadline_s")


def test_a_deadline_that_passes_while_running_gives_the_text_so_far(server: RunningServer) -> None:
    with Stream(server, OUTPUT_TOKENS, deadline_s=1.5) as stream:
        events = stream.begin().rest()
    choice = events[-1]["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("abort", "deadline")
    assert any(event["choices"][0]["delta"].get("content") for event in events)
    until(lambda: server.gauge("octavo_kv_block_utilization") == 0)


def test_a_deadline_that_does_not_pass_changes_nothing(client: openai.OpenAI) -> None:
    assert ask(client, deadline_s=60).choices[0].message.content == ask(client).choices[0].message.content


def test_a_prompt_that_was_asked_before_is_nearly_all_cached(client: openai.OpenAI, server: RunningServer) -> None:
    block_size = server.state()["config"]["block_size"]
    hits = server.gauge("octavo_prefix_hits_tokens_total")
    first, second = ask(client, LONG), ask(client, LONG)
    assert first.usage is not None
    assert cached_tokens(first) < block_size  # other prompts begin with the same few tokens
    assert cached_tokens(second) >= first.usage.prompt_tokens - block_size
    assert second.choices[0].message.content == first.choices[0].message.content
    assert server.gauge("octavo_prefix_hits_tokens_total") - hits == cached_tokens(first) + cached_tokens(second)
    assert server.gauge("octavo_kv_cached_blocks") > 0
    assert server.gauge("vllm:prefix_cache_hits_total") == server.gauge("octavo_prefix_hits_tokens_total")


def test_other_salts_and_tenants_do_not_share_what_is_cached(client: openai.OpenAI) -> None:
    prompt = "kept apart: " + LONG
    ask(client, prompt)
    who: list[dict[str, Any]] = [
        {"cache_salt": "a"},
        {"cache_salt": "b"},
        {"tenant": "a"},
        {"tenant": "b"},
        {"tenant": "a", "cache_salt": "a"},
    ]
    assert [cached_tokens(ask(client, prompt, **one)) for one in who] == [0] * len(who)
    assert all(cached_tokens(ask(client, prompt, **one)) > 0 for one in who)


def test_the_state_shows_what_is_in_effect(server: RunningServer) -> None:
    config = server.state()["config"]
    assert (config["max_num_seqs"], config["max_num_seqs_reason"]) == (1, "")
    assert (config["prefix_caching"], config["chunked_prefill"], config["tenant_header"]) == (True, True, "X-Tenant")


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "param"),
    [
        pytest.param([65] * 5000, 1, "prompt", id="prompt"),
        pytest.param([65] * 100, 5000, "max_tokens", id="output"),
    ],
)
def test_what_never_fits_the_pool_is_told_the_arithmetic(
    client: openai.OpenAI, server: RunningServer, prompt: list[int], max_tokens: int, param: str
) -> None:
    blocks = server.state()["config"]["num_blocks"]
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="tiny", prompt=prompt, max_tokens=max_tokens)
    assert (caught.value.code, caught.value.param) == ("never_fits", param)
    needed = -(-(len(prompt) + max_tokens) // 32)
    assert needed > blocks
    assert f"needs {needed:,} blocks ({len(prompt):,} prompt + {max_tokens:,} output tokens" in caught.value.message
    assert f"pool has {blocks:,}: shorten the prompt" in caught.value.message
