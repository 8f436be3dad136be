"""The soak's traffic: what is asked, and what may come back for it. Pure: request `number` of a seed is always the same.

Features are drawn one by one and mixed (streams, choices, beams, stop strings, shared prefixes, priorities, deadlines, salts), so
that they meet each other; about a tenth of the requests are given up by their client, and some are wrong on purpose
(`soak_wrong.py`). The fixed questions come again and again beside ever new company.
"""

import dataclasses
import random
from typing import Any, Literal

import msgspec

from bench.soak_service import CHAT, COMPLETIONS, MODEL
from bench.soak_wrong import WRONG

Parting = Literal["half sent", "just sent", "before the first byte", "mid-stream"]
Feature = Literal["choices", "beams", "priority", "deadline", "salt"]
FEATURES: tuple[Feature, ...] = ("choices", "beams", "priority", "deadline", "salt")

SURGE_EVERY, FIRST_SURGE = 2000, 100  # requests: there is no forecast before some have ended
BYTE_IDS = 256  # the tiny model's ids below this one are bytes, those above mark the turns of a chat
CHAT_TEXTS = 1000
CHAT_MARKS = 3  # special tokens that the template puts around one message
STOPS = ["e", "t", "a", "o", "S", "0", "\n", "th"]


@dataclasses.dataclass(frozen=True)
class Refusal:
    """The answer to a wrong request."""

    status: int
    param: str | None = None


@dataclasses.dataclass(frozen=True)
class Completion:
    """What a good request's answer must look like. `exact`: every choice has `max_tokens` tokens, and ends by them."""

    choices: int
    prompt_tokens: int
    max_tokens: int
    exact: bool
    stops: tuple[str, ...] = ()
    may_expire: bool = False
    fixed: str | None = None  # the fixed question, whose answer is always the same


@dataclasses.dataclass(frozen=True)
class Leave:
    """When the client goes away: `after_s` seconds or `chunks` chunks later, with a reset or a plain close."""

    parting: Parting
    after_s: float = 0.0
    chunks: int = 0
    reset: bool = False


@dataclasses.dataclass(frozen=True)
class Ask:
    """One request. `kind` is its row in the report."""

    kind: str
    path: str
    body: bytes
    expected: Completion | Refusal
    streamed: bool = False
    leave: Leave | None = None


class Traffic:
    """The requests of one seed, without the `without` features."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self._seed = seed
        self._without = without
        source = random.Random(seed)
        self._prefixes = [_ids(source, length) for length in (40, 70, 100, 330)]
        # Not ever new ones: the tokenizer's cache keeps up to 10,000 texts, and would grow until then.
        self._texts = [_text(source, _prompt_tokens(source)) for _ in range(CHAT_TEXTS)]
        self._fixed = _fixed_questions(source, without)
        self.wrong = [wrong for wrong in WRONG if wrong.feature not in without]

    @property
    def fixed(self) -> list[Ask]:
        """Each fixed question once, whole."""
        return [_ask("fixed question", fields, expected, False) for fields, expected in self._fixed]

    def ask(self, number: int) -> Ask:
        source = random.Random(self._seed << 40 | number)
        if number % SURGE_EVERY == FIRST_SURGE and "choices" not in self._without:
            return _surge(source)
        part = source.random()
        if part < 0.05:
            wrong = source.choice(self.wrong)
            return Ask(f"wrong: {wrong.name}", wrong.path, wrong.body(source), Refusal(wrong.status, wrong.param))
        if part < 0.12:
            fields, expected = source.choice(self._fixed)
            return _ask("fixed question", fields, expected, "use_beam_search" not in fields and source.random() < 0.5)
        ask = self._good(source)
        return ask if part < 0.89 else dataclasses.replace(ask, **_leaving(source, ask.streamed))

    def _good(self, source: random.Random) -> Ask:
        fields, prompt_tokens, prompts = self._prompt(source)
        output = _output_tokens(source)
        kind, sequences = "plain", 1
        stops: tuple[str, ...] = ()
        if self._chance(source, 0.05, "beams"):
            kind, sequences, output = "beams", source.randint(1, 3), min(output, 12)
            fields |= {"use_beam_search": True, "n": sequences, "temperature": 0}
            if source.random() < 0.5:
                fields |= {"beam_width": sequences + source.randint(0, 2), "length_penalty": source.uniform(0.5, 2.0)}
        else:
            fields |= _sampling(source)
            if self._chance(source, 0.15, "choices"):
                kind, sequences = "choices", source.randint(2, 4)
                fields |= {"n": sequences, "temperature": source.uniform(0.3, 1.5)}
            if source.random() < 0.15:
                stops = tuple(source.sample(STOPS, source.randint(1, 4)))
                fields["stop"] = list(stops)
        streamed = kind != "beams" and source.random() < 0.5
        may_expire = self._tag(source, fields)
        if ignore_eos := source.random() < 0.7:
            fields["ignore_eos"] = True
        fields["max_tokens"] = output
        exact = ignore_eos and not stops and not may_expire
        expected = Completion(prompts * sequences, prompt_tokens, output, exact, stops, may_expire)
        return _ask("streamed" if kind == "plain" and streamed else kind, fields, expected, streamed)

    def _prompt(self, source: random.Random) -> tuple[dict[str, Any], int, int]:
        """The prompt's fields, its tokens, and how many prompts it is."""
        length = _prompt_tokens(source)
        if source.random() < 0.3:
            text = source.choice(self._texts)
            return {"messages": [{"role": "user", "content": text}]}, len(text) + CHAT_MARKS, 1
        if source.random() < 0.25:
            ids = source.choice(self._prefixes) + _ids(source, min(length, 60))
            return {"prompt": ids}, len(ids), 1
        if source.random() < 0.05:
            several = [_ids(source, source.randint(1, 30)) for _ in range(source.randint(2, 4))]
            return {"prompt": several}, sum(len(ids) for ids in several), len(several)
        return {"prompt": _ids(source, length)}, length, 1

    def _tag(self, source: random.Random, fields: dict[str, Any]) -> bool:
        """Add what does not change the answer; whether a deadline may cut it."""
        if self._chance(source, 0.2, "priority"):
            fields["priority"] = source.randint(-3, 3)
        if self._chance(source, 0.1, "salt"):
            fields["cache_salt"] = source.choice(["red", "blue"])
        if self._chance(source, 0.06, "deadline"):
            fields["deadline_s"] = source.choice([0.001, 0.05, 0.3, 30.0])
            return True
        return False

    def _chance(self, source: random.Random, share: float, feature: Feature) -> bool:
        return source.random() < share and feature not in self._without


def _ask(kind: str, fields: dict[str, Any], expected: Completion, streamed: bool) -> Ask:
    if streamed:
        fields = fields | {"stream": True, "stream_options": {"include_usage": True}}
    path = CHAT if "messages" in fields else COMPLETIONS
    return Ask(kind, path, msgspec.json.encode({"model": MODEL} | fields), expected, streamed)


def _ids(source: random.Random, count: int) -> list[int]:
    return [source.randrange(BYTE_IDS) for _ in range(count)]


def _text(source: random.Random, length: int) -> str:
    return "".join(chr(source.randrange(32, 127)) for _ in range(length))


def _prompt_tokens(source: random.Random) -> int:
    part = source.random()
    if part < 0.75:
        return source.randint(1, 40)
    return source.randint(41, 120) if part < 0.97 else source.randint(121, 600)


def _output_tokens(source: random.Random) -> int:
    return source.randint(1, 8) if source.random() < 0.95 else source.randint(9, 64)


def _surge(source: random.Random) -> Ask:
    """Many sequences, much longer than their forecast: in the end they need more pages than there are, so some are preempted."""
    prompt, sequences, output = _ids(source, source.randint(20, 60)), source.randint(26, 30), source.randint(110, 130)
    fields = {"prompt": prompt, "max_tokens": output, "n": sequences, "temperature": 1.0, "ignore_eos": True}
    expected = Completion(sequences, len(prompt), output, True)
    return _ask("very many long choices", fields, expected, source.random() < 0.5)


def _sampling(source: random.Random) -> dict[str, Any]:
    if source.random() < 0.4:
        return {"temperature": 0}
    fields: dict[str, Any] = {"temperature": source.uniform(0.1, 1.5)}
    if source.random() < 0.3:
        fields |= {"top_p": source.uniform(0.3, 1.0), "top_k": source.randint(1, 50)}
    if source.random() < 0.3:
        fields["seed"] = source.randrange(1000)
    return fields


def _leaving(source: random.Random, streamed: bool) -> dict[str, Any]:
    """The change that makes a good request one whose client goes away."""
    partings: list[Parting] = ["half sent", "just sent", "before the first byte", "mid-stream"]
    parting = source.choice(partings if streamed else partings[:3])
    leave = Leave(parting, source.uniform(0.0, 0.15), source.randint(1, 3), source.random() < 0.5)
    return {"kind": f"left: {parting}", "leave": leave}


def _fixed_questions(source: random.Random, without: frozenset[str]) -> list[tuple[dict[str, Any], Completion]]:
    """Greedy answers of several lengths, and a seeded, a seeded n = 3 and a beam one."""
    wanted: list[tuple[str, int, int, dict[str, Any]]] = [
        ("greedy, 5 tokens", 5, 12, {"temperature": 0}),
        ("greedy, 16 tokens: a full page", 16, 12, {"temperature": 0}),
        ("greedy, 90 tokens", 90, 24, {"temperature": 0}),
        ("greedy, 300 tokens: two chunks", 300, 8, {"temperature": 0}),
        ("seeded", 33, 12, {"temperature": 1.0, "seed": 7}),
    ]
    if "choices" not in without:
        wanted.append(("seeded, n = 3", 41, 10, {"temperature": 1.0, "seed": 11, "n": 3}))
    if "beams" not in without:
        wanted.append(("2 of 3 beams", 27, 8, {"temperature": 0, "use_beam_search": True, "n": 2, "beam_width": 3}))
    questions = []
    for name, prompt, output, fields in wanted:
        fields |= {"prompt": _ids(source, prompt), "max_tokens": output, "ignore_eos": True}
        questions.append((fields, Completion(fields.get("n", 1), prompt, output, True, fixed=name)))
    return questions
