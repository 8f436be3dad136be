"""Requests that are wrong on purpose, with the status and the field that their refusal must name."""

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import msgspec

from bench.soak_service import CHAT, COMPLETIONS, CONTEXT_TOKENS, MAX_NUM_SEQS, MODEL
from tests.runtime.text.tiny import VOCAB_SIZE


@dataclasses.dataclass(frozen=True)
class Wrong:
    """One kind of wrong request; `feature` is the one that it belongs to."""

    name: str
    status: int
    param: str | None
    body: Callable[[random.Random], bytes]
    path: str = COMPLETIONS
    feature: str | None = None


def _with(**changes: Any) -> Callable[[random.Random], bytes]:
    """A good completion request but for `changes`."""
    return lambda source: msgspec.json.encode(
        {"model": MODEL, "prompt": [source.randrange(256)], "max_tokens": 4} | changes
    )


def _too_long(source: random.Random) -> bytes:
    return _with(prompt=[source.randrange(256) for _ in range(source.randint(CONTEXT_TOKENS, 3 * CONTEXT_TOKENS))])(
        source
    )


def _cut_json(source: random.Random) -> bytes:
    whole = _with()(source)
    return whole[: source.randrange(1, len(whole) - 1)]


WRONG = [
    Wrong("too long a prompt", 400, "prompt", _too_long),
    Wrong("cut JSON", 400, None, _cut_json),
    Wrong("an id outside the vocabulary", 400, "prompt", _with(prompt=[1, 2, VOCAB_SIZE])),
    Wrong("a negative id", 400, "prompt", _with(prompt=[-1])),
    Wrong("an empty prompt", 400, "prompt", _with(prompt=[])),
    Wrong("an unknown field", 400, "tempratur", _with(tempratur=1)),
    Wrong("a wrong type", 400, "max_tokens", _with(max_tokens="four")),
    Wrong("a value out of range", 400, "temperature", _with(temperature=-1)),
    Wrong("more tokens than the context", 400, "max_tokens", _with(max_tokens=CONTEXT_TOKENS + 1)),
    Wrong("half a character", 400, "prompt", lambda source: b'{"model":"tiny","prompt":"\\ud83d"}'),
    Wrong("another model", 404, "model", _with(model="large")),
    Wrong("no such path", 404, None, _with(), path="/v1/complete"),
    Wrong("messages for completions", 400, "messages", _with(messages=[])),
    Wrong("no messages", 400, "messages", lambda source: b'{"model":"tiny","messages":[]}', path=CHAT),
    Wrong("n above the most sequences", 400, "n", _with(n=MAX_NUM_SEQS + 1, temperature=1), feature="choices"),
    Wrong("greedy choices", 400, "n", _with(n=2, temperature=0), feature="choices"),
    Wrong("streamed beams", 400, "stream", _with(use_beam_search=True, n=2, stream=True), feature="beams"),
    Wrong(
        "beams with a temperature", 400, "temperature", _with(use_beam_search=True, temperature=0.7), feature="beams"
    ),
    Wrong("a priority in words", 400, "priority", _with(priority="high"), feature="priority"),
    Wrong("a deadline in the past", 400, "deadline_s", _with(deadline_s=-1.0), feature="deadline"),
    Wrong("an empty salt", 400, "cache_salt", _with(cache_salt=""), feature="salt"),
]
