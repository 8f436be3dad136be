from typing import Any

import pytest

from octavo_runtime.messages import FinishReason, Output
from octavo_runtime.server.schema import Options
from octavo_runtime.server.sequence_text import Delta, SequenceText
from octavo_runtime.server.shapes import Ended
from tests.runtime.text.tiny import byte_tokenizer

TOKENIZER = byte_tokenizer()
END = 256  # <|end|>
HALF = (TOKENIZER.encode("é", add_special_tokens=False)[0],)  # the first of two bytes

DEADLINE = Output("id", finish_reason="abort", stop_reason="deadline")


def output(
    text: str, reason: FinishReason | None = None, extra: tuple[int, ...] = (), stop_reason: int | None = None
) -> Output:
    ids = [*TOKENIZER.encode(text, add_special_tokens=False), *extra]
    return Output("id", ids, finish_reason=reason, stop_reason=stop_reason)


def sequence(**changes: Any) -> SequenceText:
    return SequenceText(Options.model_validate({"model": "m", **changes}), TOKENIZER)


def test_text_comes_as_outputs_come() -> None:
    one = sequence()
    assert [one.feed(output("He")), one.feed(output("llo"))] == [Delta("He"), Delta("llo")]
    assert one.feed(output("!", "stop", (END,))) == Delta("!", Ended("stop"))
    assert one.completion_tokens == 7


@pytest.mark.parametrize(
    ("changes", "outputs", "text", "ended", "tokens"),
    [
        pytest.param({}, [output("ab", "length")], "ab", Ended("length"), 2, id="length"),
        pytest.param({}, [output("a"), output("", "stop", (END,))], "a", Ended("stop"), 2, id="end token"),
        pytest.param({}, [output("ab", "stop", (), 65)], "a", Ended("stop", 65), 2, id="a stop id is no text"),
        pytest.param(
            {"include_stop_str_in_output": True},
            [output("ab", "stop", (), 65)],
            "ab",
            Ended("stop", 65),
            2,
            id="kept stop id",
        ),
        pytest.param(
            {"stop": "cd"}, [output("abcdef")], "ab", Ended("stop", "cd"), 4, id="stop string; the rest is not billed"
        ),
        pytest.param(
            {"stop": "cd"}, [output("abc"), output("d")], "ab", Ended("stop", "cd"), 4, id="stop across outputs"
        ),
        pytest.param(
            {"stop": "cd"}, [output("abc", "length")], "abc", Ended("length"), 3, id="held text comes at the end"
        ),
        pytest.param(
            {"stop": "b", "min_tokens": 3},
            [output("abbab")],
            "abba",
            Ended("stop", "b"),
            5,
            id="stops from min_tokens on",
        ),
        pytest.param(
            {"skip_special_tokens": False, "ignore_eos": True},
            [output("a", "length", (END,))],
            "a<|end|>",
            Ended("length"),
            2,
            id="special shown",
        ),
        pytest.param(
            {},
            [output("a", None, HALF), output("", "abort")],
            "a\ufffd",
            Ended("abort"),
            2,
            id="ended within a character",
        ),
        pytest.param(
            {"stop": "bc"},
            [output("ab"), DEADLINE],
            "ab",
            Ended("abort", "deadline"),
            2,
            id="held text at the deadline",
        ),
    ],
)
def test_how_a_sequence_ends(
    changes: dict[str, Any], outputs: list[Output], text: str, ended: Ended, tokens: int
) -> None:
    one = sequence(**changes)
    deltas = [one.feed(each) for each in outputs]
    assert "".join(delta.text for delta in deltas) == text
    assert deltas[-1].ended == ended
    assert one.completion_tokens == tokens


def test_only_a_stop_string_ends_it_on_this_side() -> None:
    by_engine, by_string = sequence(stop="x"), sequence(stop="x")
    by_engine.feed(output("a", "length"))
    by_string.feed(output("ax"))
    assert (by_engine.stopped_here, by_string.stopped_here) == (False, True)


def test_cached_tokens_are_counted_once() -> None:
    one = sequence()
    one.feed(Output("id", [65], cached_tokens=32))
    one.feed(Output("id", [65]))
    assert one.cached_tokens == 32
