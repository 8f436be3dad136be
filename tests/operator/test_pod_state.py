"""What is read of a pod's /state, and how coarse it becomes before it may be shown."""

import json
from typing import Any

import pytest

from octavo_operator.state.answer import AnswerError, PodState, parse
from octavo_operator.state.reading import Reading, reading, still

ANSWER: dict[str, Any] = {
    "phase": "pressured",
    "percent": 100,
    "reason": "level 2, demotes",
    "running": 6,
    "waiting": 3,
    "in_flight": 5,
    "pressure_level": 2,
    "pressure_steps": ["strict_admission", "demote"],
    "blocks_total": 640,
    "progress_age_s": None,
    "engine": {"pid": 9, "restarts": 0, "last_end": ""},
    "config": {"max_num_seqs": 4, "num_blocks": 639},
}


def parsed(**fields: Any) -> PodState:
    return parse(json.dumps(ANSWER | fields).encode())


def test_reads_phase_pressure_blocks_and_load() -> None:
    assert parsed() == PodState(
        "pressured", 100, "level 2, demotes", 2, ("strict_admission", "demote"), blocks_total=640, load=9 / 4
    )


def test_takes_from_an_older_runtime_what_it_tells() -> None:
    older = {key: value for key, value in ANSWER.items() if key not in ("pressure_steps", "blocks_total", "engine")}
    found = parse(json.dumps(older).encode())
    assert (found.steps, found.blocks_total) == (("strict_admission", "demote"), 639)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"percent": 900}, {"percent": 100}, id="more than all"),
        pytest.param({"percent": -3}, {"percent": 0}, id="less than nothing"),
        pytest.param({"percent": "half"}, {"percent": 0}, id="not a number"),
        pytest.param({"pressure_level": 40}, {"level": 7}, id="a level that there is not"),
        pytest.param({"pressure_level": 0}, {"level": 0, "steps": ()}, id="steps without a level"),
        pytest.param({"blocks_total": None, "config": {"num_blocks": "auto"}}, {"blocks_total": None}, id="not up yet"),
        pytest.param({"blocks_total": 2**70}, {"blocks_total": 639}, id="more blocks than there can be"),
        pytest.param({"config": "none"}, {"load": 9.0}, id="no configuration"),
        pytest.param({"reason": "\x1b[31mred\x07\n"}, {"reason": "red"}, id="colours and bells"),
        pytest.param({"reason": "x" * 5000}, {"reason": "x" * 200}, id="too much text"),
        pytest.param({"reason": ["x"]}, {"reason": ""}, id="no text"),
        pytest.param({"progress_age_s": 7}, {"unmoved_s": 7.0}, id="an age"),
        pytest.param({"progress_age_s": -7}, {"unmoved_s": None}, id="an age from the future"),
        pytest.param({"engine": {"last_end": "killed by signal 9"}}, {"ended": "killed by signal 9"}, id="it ended"),
    ],
)
def test_trusts_no_value(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    found = parsed(**fields)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>", id="not JSON"),
        pytest.param(b"\xff\xfe", id="not text"),
        pytest.param(b"[]", id="not an object"),
        pytest.param(b'{"phase": "dancing"}', id="an unknown phase"),
        pytest.param(b"[" * 30_000, id="nested without end"),
    ],
)
def test_refuses_what_is_no_state(body: bytes) -> None:
    with pytest.raises(AnswerError):
        parse(body)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("12 %, loading file:///models/smollm2.gguf", "loading file:///models/smollm2.gguf", id="percent"),
        pytest.param("12 %", "", id="only percent"),
        pytest.param("steps of 14 sizes", "steps of … sizes", id="a count"),
        pytest.param("downloading 1.5 of 14.2 GB", "downloading … of … GB", id="bytes"),
        pytest.param("the engine's loop has not moved for 35 s (step 7)", "the engine's loop has not moved", id="hung"),
        pytest.param("hf://org/Llama-3.1-8B@v2", "hf://org/Llama-3.1-8B@v2", id="names keep their digits"),
    ],
)
def test_what_is_shown_stands_still(text: str, expected: str) -> None:
    assert still(text) == expected


@pytest.mark.parametrize(
    ("percent", "shown"), [pytest.param(0, 0, id="none"), pytest.param(49, 25, id="below half"), (50, 50), (99, 75)]
)
def test_loading_is_shown_in_quarters(percent: int, shown: int) -> None:
    assert reading(PodState("loading", percent=percent), unmoved_s=0).percent == shown


@pytest.mark.parametrize(("unmoved_s", "shown"), [(59, 0), (60, 60), (130, 120), (9000, 240)])
def test_a_start_without_progress_is_told_in_steps(unmoved_s: float, shown: int) -> None:
    assert reading(PodState("warming"), unmoved_s).stalled_s == shown


def test_what_the_runtime_says_of_its_progress_counts_more_than_what_is_seen() -> None:
    assert reading(PodState("loading", unmoved_s=5.0), unmoved_s=300).stalled_s == 0
    assert reading(PodState("loading", unmoved_s=300.0), unmoved_s=5).stalled_s == 240


def test_how_the_engine_ended_is_told_while_it_loads_again() -> None:
    assert reading(PodState("loading", ended="killed"), unmoved_s=0).ended == "killed"
    assert reading(PodState("ready", ended="killed"), unmoved_s=0).ended == ""


def test_a_ready_pod_shows_no_progress() -> None:
    state = PodState("ready", percent=100, reason="", blocks_total=640, load=0.3)
    assert reading(state, unmoved_s=9000) == Reading("ready", blocks_total=640)
