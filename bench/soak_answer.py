"""An answer as it came, and what is wrong with it. Pure."""

import dataclasses
from typing import Any

import msgspec

from bench.soak_traffic import Ask, Completion, Refusal

DONE = b"data: [DONE]"


@dataclasses.dataclass
class Choice:
    text: str = ""
    finish_reason: str | None = None
    stop_reason: str | int | None = None

    @property
    def expired(self) -> bool:
        return (self.finish_reason, self.stop_reason) == ("abort", "deadline")


@dataclasses.dataclass
class Answer:
    """One answer, whole or put together from its stream."""

    status: int
    retry_after_s: int | None = None
    choices: dict[int, Choice] = dataclasses.field(default_factory=dict)
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    broken: str | None = None  # what is wrong with its form

    @property
    def expired(self) -> bool:
        return self.refused_late or any(choice.expired for choice in self.choices.values())

    @property
    def refused_late(self) -> bool:
        """Its deadline came while it (or one prompt of several) was still waiting."""
        return self.error is not None and self.error["code"] == "deadline_exceeded"

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self.choices[index].text for index in sorted(self.choices))


def parsed(status: int, retry_after: str | None, body: bytes, streamed: bool) -> Answer:
    """An answer from its body; a stream only when it succeeded."""
    answer = Answer(status, int(retry_after) if retry_after is not None else None)
    try:
        if status == 200 and streamed:
            _read_stream(answer, body)
        else:
            _read_object(answer, msgspec.json.decode(body), "message")
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        answer.broken = f"{error!r} in {body[:200]!r}"
    return answer


def _read_stream(answer: Answer, body: bytes) -> None:
    events = [line for line in body.split(b"\n\n") if line and not line.startswith(b":")]
    if not events or events[-1] != DONE:
        answer.broken = f"a stream that does not end with [DONE] but with {body[-100:]!r}"
    for line in events:
        if line != DONE:
            _read_object(answer, msgspec.json.decode(line.removeprefix(b"data: ")), "delta")


def _read_object(answer: Answer, content: dict[str, Any], text_member: str) -> None:
    if "error" in content:
        answer.error = content["error"]
        return
    answer.usage = content.get("usage") or answer.usage
    for wire in content["choices"]:
        choice = answer.choices.setdefault(wire["index"], Choice())
        choice.text += wire["text"] if "text" in wire else wire[text_member].get("content", "")
        if wire["finish_reason"] is not None:
            if choice.finish_reason is not None:
                answer.broken = f"choice {wire['index']} ended twice"
            choice.finish_reason, choice.stop_reason = wire["finish_reason"], wire["stop_reason"]


def problem(ask: Ask, answer: Answer, first: tuple[str, ...] | None = None) -> str | None:
    """What is wrong with the last answer to `ask`, or None. `first`: what a fixed question was answered the first time."""
    if answer.broken is not None:
        return answer.broken
    if isinstance(ask.expected, Refusal):
        return _refusal_problem(ask.expected, answer)
    return _completion_problem(ask.expected, answer) or _difference(answer.texts, first)


def _refusal_problem(expected: Refusal, answer: Answer) -> str | None:
    if answer.status != expected.status or answer.error is None:
        return f"status {answer.status} and not {expected.status}: {answer.error or answer.texts}"
    if answer.error["param"] != expected.param:
        return f"names {answer.error['param']!r} and not {expected.param!r}: {answer.error['message']}"
    return None


def _completion_problem(expected: Completion, answer: Answer) -> str | None:
    if expected.may_expire and answer.refused_late:
        return None
    if answer.status != 200 or answer.error is not None:
        return f"status {answer.status}: {answer.error}"
    if sorted(answer.choices) != list(range(expected.choices)):
        return f"choices {sorted(answer.choices)}, expected {expected.choices}"
    for choice in answer.choices.values():
        if wrong := _choice_problem(expected, choice):
            return wrong
    return _usage_problem(expected, answer.usage)


def _choice_problem(expected: Completion, choice: Choice) -> str | None:
    if expected.may_expire and choice.expired:
        return None
    if choice.finish_reason not in (("length",) if expected.exact else ("length", "stop")):
        return f"ended by {choice.finish_reason!r}, {choice.stop_reason!r}"
    inside = [stop for stop in expected.stops if stop in choice.text]
    return f"text with the stop string {inside[0]!r}" if inside else None


def _usage_problem(expected: Completion, usage: dict[str, Any] | None) -> str | None:
    if usage is None:
        return "no usage"
    prompt, output = usage["prompt_tokens"], usage["completion_tokens"]
    most = expected.choices * expected.max_tokens
    if prompt != expected.prompt_tokens:
        return f"{prompt} prompt tokens, sent {expected.prompt_tokens}"
    if output > most or (expected.exact and output != most):
        return f"{output} completion tokens, asked for {most}"
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    return None if 0 <= cached < prompt else f"{cached} cached tokens of {prompt}"


def _difference(texts: tuple[str, ...], first: tuple[str, ...] | None) -> str | None:
    return None if first is None or texts == first else f"answered {texts}, the first time {first}"
