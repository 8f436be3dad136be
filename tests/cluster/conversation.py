"""Talking to a service of the cluster from this machine: a port-forward, a streamed chat, the metrics."""

import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from openai import OpenAI

from tests.cluster.kubectl import CommandError, Kubectl
from tests.cluster.onenode.machine import child_environ


@dataclass(frozen=True)
class Answer:
    text: str
    tokens: int
    first_token_s: float


@contextmanager
def port_forward(kubectl: Kubectl, target: str, port: int) -> Iterator[str]:
    """Forwards a free local port to `target` ("service/x", "pod/x") and yields the base URL; works on any cluster."""
    words = kubectl.words("port-forward", target, f":{port}", "--address=127.0.0.1")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=child_environ())
    with process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            said = process.stdout.readline()
            found = re.search(r"127\.0\.0\.1:(\d+)", said)
            if found is None:
                process.terminate()
                raise CommandError(f"kubectl port-forward {target}", process.wait(), process.stderr.read() or said)
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            process.terminate()


def ask(base_url: str, model: str, question: str, show: Callable[[str], None], *, limit_tokens: int = 64) -> Answer:
    """Streams one chat answer with the `openai` client, showing each piece as it comes."""
    client = OpenAI(base_url=f"{base_url}/v1", api_key="none", max_retries=0, timeout=120.0)
    pieces: list[str] = []
    tokens, first_token_s = 0, 0.0
    start_s = time.monotonic()
    with client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": question}],
        max_tokens=limit_tokens,
        temperature=0.0,
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        for chunk in stream:
            if chunk.usage is not None:
                tokens = chunk.usage.completion_tokens
            text = chunk.choices[0].delta.content if chunk.choices else None
            if text:
                first_token_s = first_token_s or time.monotonic() - start_s
                pieces.append(text)
                show(text)
    return Answer("".join(pieces), tokens, first_token_s)


def metrics(base_url: str, names: tuple[str, ...]) -> list[str]:
    """The lines of `/metrics` with one of the names, in the order of the names."""
    # Through no proxy: the address is this machine's.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{base_url}/metrics", timeout=10.0) as response:
        lines = response.read().decode().splitlines()
    return [line for name in names for line in lines if re.match(rf"{re.escape(name)}[{{ ]", line)]
