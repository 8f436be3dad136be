"""Warm-up: its parts, the manifest of shapes that traffic met, and what comes late."""

import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo_runtime.cli import main
from octavo_runtime.engine import warmup
from octavo_runtime.engine.late import LateCompilations, RowSizes
from octavo_runtime.engine.plan import Run, StepPlan
from octavo_runtime.engine.rehearsal import shape_rehearsals
from octavo_runtime.engine.traffic import MANIFEST, StepShape, Traffic, read_manifest
from octavo_runtime.engine.warmup import Part
from tests.runtime.engine.tiny_engine import Answers, MakeEngine, ask, finish, prompt


def plan(*counts: int) -> StepPlan:
    return StepPlan(1, [], [], [], [Run(slot, 0, count) for slot, count in enumerate(counts)], [], [])


def test_parts_are_told_by_name_with_the_percentage_of_the_whole() -> None:
    told: list[tuple[int, str]] = []
    parts = [Part("one", [50, 100]), Part("nothing", []), Part("two", [100], bounded=False)]
    warmup.run(parts, lambda percent, what: told.append((percent, what)), 10.0)
    assert told == [(0, "one"), (16, "one"), (33, "one"), (33, "nothing"), (66, "two"), (99, "two")]


def test_the_clock_ends_bounded_parts_only_and_the_log_says_what_is_left(caplog: pytest.LogCaptureFixture) -> None:
    ran: list[str] = []

    def steps(name: str) -> Iterator[int]:
        for done in (25, 50, 100):
            ran.append(name)
            yield done

    clock = itertools.count()
    parts = [Part("many", steps("many")), Part("more", steps("more")), Part("needed", steps("needed"), bounded=False)]
    warmup.run(parts, warmup.silent, 1.5, lambda: float(next(clock)))
    assert ran == ["many", "many", "more", *["needed"] * 3]
    assert "left out 50 % of 'many' after 1.5 s (--warmup-max-seconds)" in caplog.text
    assert "left out 75 % of 'more'" in caplog.text


def test_the_manifest_has_what_was_met_most_frequent_first_and_half_of_what_was_before(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    for _ in range(2):
        traffic = Traffic([path], read_manifest(path))
        for met in (plan(1, 1, 1), plan(1, 1, 1), plan(60, 60), plan(1, 1, 1, 1)):
            traffic.met(met)
        traffic.write()
    assert list(read_manifest(path).items()) == [(StepShape(4, 4), 4.5), (StepShape(2, 128), 1.5)]
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]


def test_a_manifest_is_written_now_and_then(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    traffic = Traffic([path], {})
    for now_s, there in ((1000.0, False), (1059.0, False), (1060.0, True)):
        traffic.met(plan(1))
        traffic.write_if_due(now_s)
        assert path.exists() == there


@pytest.mark.parametrize(
    ("content", "level", "text"),
    [
        pytest.param(None, logging.INFO, "no manifest of shapes at", id="absent"),
        pytest.param("{", logging.WARNING, "is no manifest of shapes", id="torn"),
        pytest.param('{"shapes": 5}', logging.WARNING, "is no manifest of shapes", id="another"),
    ],
)
def test_without_a_good_manifest_warm_up_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | None, level: int, text: str
) -> None:
    caplog.set_level(logging.INFO)
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    assert read_manifest(tmp_path / "manifest.json") == {}
    assert [(record.levelno, text in record.getMessage()) for record in caplog.records] == [(level, True)]


def test_where_a_manifest_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "file").touch()
    traffic = Traffic([tmp_path / "file" / "manifest.json", tmp_path / "good.json"], {})
    for _ in range(2):
        traffic.met(plan(1))
        traffic.write()
    assert caplog.text.count("is not written to") == 1
    assert read_manifest(tmp_path / "good.json") == {StepShape(1, 1): 2}


def test_shapes_are_rehearsed_as_far_as_steps_can_be_such() -> None:
    shapes = [StepShape(8, 8), StepShape(64, 512), StepShape(2, 64), StepShape(4, 2)]
    plans = shape_rehearsals(shapes, max_num_seqs=16, longest=20, most_tokens=100)
    assert [(len(one.run), one.tokens) for one in plans] == [(8, 8), (16, 100), (2, 40), (2, 2)]
    assert [one.dropped for one in plans] == [[], list(range(8)), list(range(16)), [0, 1]]


def test_what_is_late_is_counted_always_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    late = LateCompilations()
    for name in ("a", "b", "a"):
        late.met(name)
    assert late.total == 3
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["a", "b"]


def test_a_number_of_rows_is_late_once() -> None:
    late, rows = LateCompilations(), RowSizes(lambda count: -(-count // 4) * 4, 16)
    assert rows.all == [4, 8, 12, 16]
    rows.warmed(3)
    for count in (4, 2, 9, 12, 10):
        rows.look(count, late)
    assert late.total == 1


SIZES = [1, 3, 17, 40, 100]


def serve(new_engine: MakeEngine, **flags: object) -> tuple[Answers, list[str]]:
    """Requests of several sizes through an engine that was warmed, and what warm-up told."""
    engine, told = new_engine(**flags), []
    engine.warm_up(lambda percent, what: told.append(what))
    answers = finish(engine, [ask(f"r{size}", prompt("r", size), max_tokens=4) for size in SIZES])
    engine.close()
    return answers, list(dict.fromkeys(told))


def test_after_warm_up_nothing_is_late(new_engine: MakeEngine) -> None:
    answers, told = serve(new_engine, prefix_caching=False)
    assert told == ["steps of 32 sizes", "sequences that hold KV pages"]
    assert {stats.late_compilations_total for stats in answers.steps} == {0}


def test_what_warm_up_left_out_is_late_and_named(new_engine: MakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    answers, _ = serve(new_engine, prefix_caching=False, warmup_max_seconds=0.0)
    assert answers.steps[-1].late_compilations_total > 0
    assert "met first while serving, which warm-up should have done: products with" in caplog.text


def test_shapes_that_traffic_met_are_run_at_the_next_start(new_engine: MakeEngine, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    serve(new_engine, warmup_manifest=str(manifest))
    shapes = json.loads(manifest.read_text())["shapes"]
    assert shapes == sorted(shapes, key=lambda shape: -shape["steps"])
    _, told = serve(new_engine, warmup_manifest=str(manifest))
    assert told[1] == f"{len(shapes)} shapes that traffic met before"


@pytest.mark.parametrize("wanted", [5, 10])
def test_so_many_sequences_hold_pages_as_were_asked_for(new_engine: MakeEngine, wanted: int) -> None:
    engine = new_engine(warmup_sequences=wanted)
    held: list[int] = []
    names = [f"warmup-{number}" for number in range(20)]
    engine.warm_up(lambda percent, what: held.append(sum(map(engine.scheduler.knows, names))))
    assert max(held) == wanted


def test_the_manifest_of_a_run_directory_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifest", "export", "--run-dir", str(tmp_path)]) == 1
    assert "a server writes it there within a minute" in capsys.readouterr().err
    assert main(["manifest", "export", "--run-dir", str(tmp_path / "no")]) == 1
    assert "give the server's --run-dir" in capsys.readouterr().err
    traffic = Traffic([tmp_path / MANIFEST], {})
    traffic.met(plan(1, 1))
    traffic.write()
    assert main(["manifest", "export", "--run-dir", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["shapes"] == [{"sequences": 2, "tokens": 2, "steps": 1}]
