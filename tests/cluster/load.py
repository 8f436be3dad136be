"""Clients that keep a service busy from this machine while a block runs, and what became of their requests."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import openai

PAUSE_S = 0.2


@dataclass
class Outcome:
    """How requests ended. `broken` holds what should never be: answers that began and did not end."""

    ended: int = 0
    refused: int = 0
    broken: list[str] = field(default_factory=list)


@contextmanager
def busy(
    base_url: str, model: str, clients: int, limit_tokens: int, prompt: str = "Tell me a long story."
) -> Iterator[Outcome]:
    """`clients` threads ask one streamed question after another, each over a connection of its own, of `base_url`.

    At the end of the block each finishes the answer it is at.
    """
    outcome, stop = Outcome(), threading.Event()

    def ask_on() -> None:
        # One client for all questions, since making one costs more than asking; but for each a connection, which finds its own pod.
        headers = {"Connection": "close"}
        with openai.OpenAI(
            base_url=f"{base_url}/v1", api_key="none", max_retries=0, timeout=60.0, default_headers=headers
        ) as client:
            while not stop.is_set():
                _ask(client, model, prompt, limit_tokens, outcome)

    threads = [threading.Thread(target=ask_on, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield outcome
    finally:
        stop.set()
        for thread in threads:
            thread.join(120.0)


def _ask(client: openai.OpenAI, model: str, prompt: str, limit_tokens: int, outcome: Outcome) -> None:
    began, reason = False, None
    try:
        with client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": prompt}],
            max_tokens=limit_tokens,
            temperature=0.0,
            stream=True,
            extra_body={"ignore_eos": True},
        ) as stream:
            for chunk in stream:
                began = True
                reason = chunk.choices[0].finish_reason if chunk.choices else reason
    except openai.OpenAIError as error:
        if began:
            outcome.broken.append(repr(error))
        else:
            # A pod that drains, or is gone already: no answer began.
            outcome.refused += 1
        time.sleep(PAUSE_S)
        return
    if reason is None:
        outcome.broken.append("a stream ended without a finish reason")
    else:
        outcome.ended += 1
