"""One service on two nodes, as a LeaderWorkerSet starts them, each in a network namespace of its own."""

import json
import os
import signal
from pathlib import Path

import pytest

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.llm import LLM
from octavo_runtime.messages import AddRequest, Sampling
from tests.runtime.server.nodes import Node, can_have_namespaces, two_nodes
from tests.runtime.server.running import START_TIMEOUT_S, until
from tests.runtime.text.tiny import byte_tokenizer

PROMPT = list(range(1, 40))
TOKENS = 12


@pytest.fixture(scope="module")
def expected(tiny_chat_model: Path) -> str:
    """What one rank answers."""
    llm = LLM(ServeConfig(str(tiny_chat_model), dtype="float32", kv_cache_memory=8 << 20))
    request = AddRequest("r", PROMPT, Sampling(temperature=0.0), seed=0, max_tokens=TOKENS)
    tokens = llm.generate([request])[0].token_ids
    llm.engine.close()
    return byte_tokenizer().decode(tokens)


def completion(tokens: int) -> dict[str, object]:
    return {
        "model": "tiny",
        "prompt": PROMPT,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
    }


def answered(leader: Node) -> str:
    status, text = leader.answer("/v1/completions", completion(TOKENS))
    assert status == 200, text
    return str(json.loads(text)["choices"][0]["text"])


def test_two_nodes_answer_as_one_and_outlive_a_rank(tiny_chat_model: Path, tmp_path: Path, expected: str) -> None:
    if not can_have_namespaces():
        pytest.skip("needs the right to make network namespaces (root)")
    flags = ["--tensor-parallel-size", "2", "--dtype", "float32", "--served-model-name", "tiny"]
    flags += ["--kv-cache-memory", "16Mi", "--host", "127.0.0.1"]
    with two_nodes(tiny_chat_model, tmp_path, *flags) as (leader, follower):
        until(lambda: leader.answer("/ready", port=8001)[0] == 200, START_TIMEOUT_S)
        assert answered(leader) == expected
        assert follower.answer("/live", port=8001)[0] == 200
        (rank,) = follower.ranks()
        client = leader.ask("/v1/completions", completion(4000))
        until(lambda: "vllm:num_requests_running{" in running(leader) and running(leader).endswith(" 1.0"))
        os.kill(rank, signal.SIGKILL)
        status, text = json.loads(client.communicate(timeout=60)[0])
        assert status == 500
        assert "rank 1" in text
        assert "its last step was" in text
        until(lambda: leader.answer("/ready", port=8001)[0] == 200, START_TIMEOUT_S)
        assert answered(leader) == expected
        finishes_what_runs_when_all_nodes_are_told_to_end(leader, follower)


def finishes_what_runs_when_all_nodes_are_told_to_end(leader: Node, follower: Node) -> None:
    """As pods of a group are: the follower is told first, and may not end before the leader has drained."""
    client = leader.ask("/v1/completions", completion(400))
    until(lambda: running(leader).endswith(" 1.0"))
    for node in (follower, leader):
        node.process.send_signal(signal.SIGTERM)
    status, text = json.loads(client.communicate(timeout=60)[0])
    assert status == 200, text
    assert json.loads(text)["usage"]["completion_tokens"] == 400
    assert [node.process.wait(30) for node in (leader, follower)] == [0, 0]


def running(leader: Node) -> str:
    """The line of the gauge that counts running requests."""
    lines = leader.answer("/metrics", port=8001)[1].splitlines()
    return next((line for line in lines if line.startswith("vllm:num_requests_running{")), "")
