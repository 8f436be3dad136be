"""The soak itself, short; and that it would notice: every way to answer wrongly or to leave something behind is a fault."""

import collections
import dataclasses
import re

import msgspec
import pytest

from bench.soak import main
from bench.soak_answer import Answer, Choice, parsed, problem
from bench.soak_footprint import MIB, Footprint, growth_mib
from bench.soak_report import JUDGED_FROM, MOST_GROWTH_MIB, Process, Rest, faults
from bench.soak_run import Memory, Tally
from bench.soak_traffic import FEATURES, Ask, Completion, Refusal, Traffic

USAGE = {"prompt_tokens": 10, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": 0}}
EXACT = Completion(choices=2, prompt_tokens=10, max_tokens=4, exact=True)
LOOSE = Completion(choices=2, prompt_tokens=10, max_tokens=4, exact=False, stops=("x",), may_expire=True)
REFUSED = Refusal(400, "n")
LATE = {"code": "deadline_exceeded", "param": "deadline_s", "message": "late"}


def ask(expected: Completion | Refusal) -> Ask:
    return Ask("plain", "/v1/completions", b"{}", expected)


def answer(*choices: Choice, **usage: object) -> Answer:
    return Answer(200, choices=dict(enumerate(choices)), usage=USAGE | usage)


def ended(text: str = "ab", finish: str = "length", stop: str | None = None) -> Choice:
    return Choice(text, finish, stop)


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        pytest.param(EXACT, answer(ended(), ended()), id="exact lengths"),
        pytest.param(LOOSE, answer(ended(finish="stop", stop="x"), ended(), completion_tokens=5), id="stopped early"),
        pytest.param(
            LOOSE, answer(ended(finish="abort", stop="deadline"), ended(), completion_tokens=5), id="cut short"
        ),
        pytest.param(LOOSE, Answer(504, error=LATE), id="refused at its deadline"),
        pytest.param(LOOSE, Answer(200, error=LATE), id="the same for one prompt of a stream"),
        pytest.param(REFUSED, Answer(400, error={"param": "n", "message": "too many"}), id="refused"),
    ],
)
def test_a_good_answer_has_no_problem(expected: Completion | Refusal, given: Answer) -> None:
    assert problem(ask(expected), given) is None


@pytest.mark.parametrize(
    ("expected", "given", "text"),
    [
        pytest.param(EXACT, answer(ended()), "choices [0], expected 2", id="a choice is missing"),
        pytest.param(EXACT, answer(ended(), Choice("ab")), "ended by None", id="a choice has no end"),
        pytest.param(
            EXACT, answer(ended(), ended(finish="stop")), "ended by 'stop'", id="an end that was switched off"
        ),
        pytest.param(
            EXACT, answer(ended(), ended(finish="abort", stop="deadline")), "'deadline'", id="no deadline was set"
        ),
        pytest.param(EXACT, answer(ended(), ended(), completion_tokens=7), "7 completion tokens", id="too few tokens"),
        pytest.param(LOOSE, answer(ended(), ended(), completion_tokens=9), "9 completion tokens", id="too many tokens"),
        pytest.param(LOOSE, answer(ended(), ended("axb")), "stop string 'x'", id="a stop string in the text"),
        pytest.param(
            LOOSE, answer(ended(), ended(finish="abort")), "ended by 'abort'", id="aborted without a deadline"
        ),
        pytest.param(EXACT, answer(ended(), ended(), prompt_tokens=11), "11 prompt tokens", id="another prompt"),
        pytest.param(
            EXACT,
            answer(ended(), ended(), prompt_tokens_details={"cached_tokens": 10}),
            "10 cached tokens of 10",
            id="nothing computed",
        ),
        pytest.param(EXACT, Answer(200, choices={0: ended(), 1: ended()}), "no usage", id="no usage"),
        pytest.param(EXACT, Answer(504, error=LATE), "status 504", id="a deadline nobody set"),
        pytest.param(EXACT, Answer(500, error={"code": "engine_failed"}), "status 500", id="the engine failed"),
        pytest.param(REFUSED, answer(ended()), "status 200 and not 400", id="a wrong request was answered"),
        pytest.param(
            REFUSED, Answer(400, error={"param": "m", "message": "?"}), "names 'm' and not 'n'", id="the wrong field"
        ),
    ],
)
def test_a_wrong_answer_is_told(expected: Completion | Refusal, given: Answer, text: str) -> None:
    assert text in (problem(ask(expected), given) or "")


def test_a_fixed_question_must_be_answered_as_the_first_time() -> None:
    given = answer(ended("ab"), ended("cd"))
    assert problem(ask(EXACT), given, first=("ab", "cd")) is None
    assert "the first time ('ab', 'ce')" in (problem(ask(EXACT), given, first=("ab", "ce")) or "")


def chunk(**choice: object) -> bytes:
    whole = {"index": 0, "text": "", "finish_reason": None, "stop_reason": None} | choice
    return b"data: " + msgspec.json.encode({"choices": [whole]}) + b"\n\n"


def test_a_stream_is_put_together() -> None:
    body = chunk(text="a") + b": waiting\n\n" + chunk(text="b", finish_reason="length") + b"data: [DONE]\n\n"
    given = parsed(200, None, body, streamed=True)
    assert (given.broken, given.choices) == (None, {0: ended("ab")})


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(chunk(finish_reason="length"), "does not end with [DONE]", id="no end"),
        pytest.param(chunk(finish_reason="length") * 2 + b"data: [DONE]\n\n", "choice 0 ended twice", id="two ends"),
        pytest.param(b'data: {"choi\n\ndata: [DONE]\n\n', "DecodeError", id="half an event"),
        pytest.param(b"", "does not end with [DONE]", id="nothing"),
    ],
)
def test_a_broken_stream_is_told(body: bytes, text: str) -> None:
    assert text in (problem(ask(EXACT), parsed(200, None, body, streamed=True)) or "")


def test_growth_is_that_of_the_last_two_thirds() -> None:
    warming = [(done, done * 100_000) for done in range(0, 3_000, 10)]
    leaking = [(done, 300_000_000 + (done - 3_000) * 1_000) for done in range(3_000, 9_000, 10)]
    per_10_000, over_the_span = growth_mib(warming + leaking)
    assert per_10_000 == pytest.approx(10_000_000 / MIB)
    assert over_the_span == pytest.approx(5_990_000 / MIB)
    assert growth_mib(warming + [(done, 300_000_000) for done in range(3_000, 9_000, 10)]) == (0.0, 0.0)
    assert growth_mib([]) == (0.0, 0.0)


HELD = Footprint(resident_bytes=MIB, handles=("socket:[1]", "/dev/null"), threads=4, cpu_s=1.0)
PROCESS = Process("API", 7, 7, HELD, HELD)
REST = Rest(block_utilization=0.0, running=0, waiting=0, in_flight=0, restarts=0, exit_code=0, counts={})


def tally(done: int = JUDGED_FROM, wanted: int = JUDGED_FROM) -> Tally:
    return Tally(wanted, collections.Counter({("plain", "finished"): done}))


def memory(grown_mib: float) -> Memory:
    samples = [(done, int(done / JUDGED_FROM * 1.5 * grown_mib * MIB)) for done in range(0, JUDGED_FROM + 1, 10)]
    return Memory({"API": 7}, {"API": samples})


def test_a_clean_run_has_no_faults() -> None:
    assert faults(tally(), [PROCESS], memory(MOST_GROWTH_MIB * 0.9), REST) == []
    assert faults(tally(300, 300), [PROCESS], memory(MOST_GROWTH_MIB * 2), REST) == []  # too short to judge memory


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"pid_after": 8}, "API: process 7 became 8", id="another process"),
        pytest.param({"after": dataclasses.replace(HELD, threads=5)}, "API: 4 threads became 5", id="a thread"),
        pytest.param(
            {"after": dataclasses.replace(HELD, handles=(*HELD.handles, "socket:[2]"))},
            "API: 2 handles became 3; new: ['socket:[2]']",
            id="a socket",
        ),
    ],
)
def test_what_a_process_keeps_is_a_fault(change: dict[str, object], text: str) -> None:
    process = dataclasses.replace(PROCESS, **change)  # type: ignore[arg-type]  # one field each, of its type
    assert faults(tally(), [process], memory(0), REST) == [text]


@pytest.mark.parametrize("field", ["block_utilization", "running", "waiting", "in_flight", "restarts", "exit_code"])
def test_a_server_that_is_not_at_rest_is_a_fault(field: str) -> None:
    rest = dataclasses.replace(REST, **{field: 1})  # type: ignore[arg-type]  # every one of them is a number
    assert faults(tally(), [PROCESS], memory(0), rest) == [f"the idle server has {field.replace('_', ' ')} 1 and not 0"]


def test_growing_memory_a_wrong_answer_and_a_run_that_was_given_up_are_faults() -> None:
    run = tally(done=JUDGED_FROM - 1)
    run.wrong.append("request 3 (plain): status 500")
    assert faults(run, [PROCESS], memory(MOST_GROWTH_MIB * 1.2), REST) == [
        "request 3 (plain): status 500",
        "1 of 5,000 requests have no end: the run was given up",
        "API: grew by 9.6 MiB over the last two thirds, more than 8",
    ]


def test_the_traffic_of_a_seed_is_always_the_same_and_has_every_kind() -> None:
    traffic, same, other = Traffic(3), Traffic(3), Traffic(4)
    asks = [traffic.ask(number) for number in range(3_000)]
    assert asks[:100] == [same.ask(number) for number in range(100)]
    assert asks[:100] != [other.ask(number) for number in range(100)]
    kinds = {one.kind for one in asks}
    assert {"plain", "streamed", "choices", "very many long choices", "beams", "fixed question"} < kinds
    assert {"left: half sent", "left: just sent", "left: before the first byte", "left: mid-stream"} < kinds
    assert len([kind for kind in kinds if kind.startswith("wrong: ")]) == len(traffic.wrong)


def test_a_feature_can_be_left_out() -> None:
    traffic = Traffic(3, frozenset(FEATURES))
    bodies = b"".join(traffic.ask(number).body for number in range(2_000))
    for field in (b'"n":', b'"use_beam_search":', b'"priority":', b'"deadline_s":', b'"cache_salt":'):
        assert field not in bodies


def test_a_short_run_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--requests", "300", "--seed", "1"])
    told = capsys.readouterr().out
    assert code == 0, told
    assert "good: every request ended as it should, and nothing was left behind" in told
    assert re.search(r"^preemptions +[1-9]", told, re.MULTILINE), told
    assert re.search(r"^pages copied on write +[1-9]", told, re.MULTILINE), told
