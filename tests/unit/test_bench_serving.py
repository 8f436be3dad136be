"""The serving benchmark: peers' lines, rounds, ratios, the clock of the profile, and one small run of everything."""

import sys
from pathlib import Path

import pytest

from bench import serving
from bench.serving_result import LineError, Result, parse
from bench.serving_rounds import Engine, Run, play
from bench.serving_table import ratios, spread, table
from bench.step_profile import IDLE, Border, Clock, measuring
from bench.workload import mixed
from tests.runtime.server.running import until


def test_the_workload_is_the_one_that_peers_run() -> None:
    work = mixed(64)
    assert (sum(len(prompt) for prompt, _ in work), sum(output for _, output in work)) == (9_786, 8_133)
    assert (work[0][0][:3], work[0][1], work[-1][0][-1], work[-1][1]) == ([25347, 27662, 2753], 82, 21902, 156)


@pytest.mark.parametrize(
    ("output", "result"),
    [
        pytest.param('{"engine": "a", "best_tok_s": 5, "single_tok_s": 2.5}', Result("a", 5.0, None, 2.5), id="a line"),
        pytest.param('log\n{"best_tok_s": 1}\n{"best_tok_s": 2}\nbye', Result("", 2.0), id="the last line of several"),
    ],
)
def test_a_peer_tells_its_figures_in_one_line(output: str, result: Result) -> None:
    assert parse(output) == result
    assert parse(result.line()) == result


@pytest.mark.parametrize(
    ("output", "error"),
    [
        pytest.param("done", "no line that is a JSON object", id="no line"),
        pytest.param("{best: 1}", "is no JSON", id="not JSON"),
        pytest.param('{"engine": "a", "ready_s": 1}', "neither best_tok_s nor single_tok_s", id="no rate"),
        pytest.param('{"best_tok_s": 0}', "its best_tok_s is 0", id="a rate of nothing"),
        pytest.param('{"single_tok_s": "fast"}', "its single_tok_s is 'fast'", id="a rate in words"),
    ],
)
def test_a_wrong_line_is_refused_with_the_reason(output: str, error: str) -> None:
    with pytest.raises(LineError, match=error):
        parse(output)


def says(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"print({text!r})")


def test_rounds_alternate_and_a_failed_engine_is_not_tried_again() -> None:
    engines = [
        Engine("a", says('{"best_tok_s": 2}')),
        Engine("b", (sys.executable, "-c", "import sys; sys.exit('no model')")),
        Engine("c", says('{"best_tok_s": 1}'), rounds=1),
        Engine("d", says('{"best_tok_s": 4}')),
    ]
    told: list[Run] = []
    runs = play(engines, rounds=2, timeout_s=60.0, tell=told.append)
    assert [(run.round, run.engine) for run in runs] == [(0, "a"), (0, "b"), (0, "c"), (0, "d"), (1, "d"), (1, "a")]
    assert [run.failure for run in runs if run.result is None] == ["exit code 1: no model"]
    assert told == runs


@pytest.mark.parametrize(
    ("then", "timeout_s", "failure"),
    [
        pytest.param("""echo '{"best_tok_s": 1}'""", 60.0, "", id="at a good end"),
        pytest.param("wait", 2.0, "no end after 2 s: give it more with --timeout", id="at its limit"),
    ],
)
def test_what_an_engine_has_started_ends_with_it(then: str, timeout_s: float, failure: str, tmp_path: Path) -> None:
    started = tmp_path / "process"
    engine = Engine("a", ("sh", "-c", f"sleep 600 & echo $! > {started}; {then}"))
    (found,) = play([engine], rounds=1, timeout_s=timeout_s, tell=lambda run: None)
    assert found.failure == failure
    until(lambda: not lives(started.read_text().strip()), timeout_s=30.0)


def test_a_neighbour_takes_a_share_of_a_core_while_its_engine_runs(tmp_path: Path) -> None:
    """The engine waits until its neighbour has had time of a CPU, and tells which process that was."""
    engine = """
import json, os, pathlib
parent = pathlib.Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children")
while True:
    for child in parent.read_text().split():
        words = pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\\0")
        if words[-2:] == ["0.3", ""] and int(pathlib.Path(f"/proc/{child}/stat").read_text().split()[13]):
            pathlib.Path("neighbour").write_text(child)
            print(json.dumps({"best_tok_s": 1}))
            raise SystemExit
"""
    [run] = play([Engine("a", (sys.executable, "-c", engine), folder=tmp_path, taken=0.3)], 1, 60.0, lambda run: None)
    assert run.result is not None, run.failure
    assert not lives((tmp_path / "neighbour").read_text())


def lives(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def run(number: int, engine: str, rate: float | None) -> Run:
    return Run(number, engine, None if rate is None else Result(engine, best_tok_s=rate))


def test_ratios_are_taken_within_a_round() -> None:
    runs = [run(0, "octavo", 30.0), run(0, "b", 10.0), run(1, "b", 20.0), run(1, "octavo", 40.0), run(2, "octavo", 1.0)]
    assert ratios(runs, "b", "best_tok_s") == [3.0, 2.0]
    assert ratios(runs, "octavo", "best_tok_s") == []
    assert ratios([*runs, run(3, "b", None)], "b", "single_tok_s") == []


def test_the_table_shows_medians_with_their_spread_and_a_dash_for_nothing() -> None:
    rates = [(30.0, 10.0), (40.0, 20.0), (44.0, 11.0)]
    runs = [run(number, "octavo", ours) for number, (ours, _) in enumerate(rates)]
    runs += [run(number, "b", theirs) for number, (_, theirs) in enumerate(rates)]
    lines = table(runs, 64).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
    assert cells == [
        ["octavo", "40 (30–44)", "–", "–", "–", "–"],
        ["b", "11 (10–20)", "3.00 (2.00–4.00)", "–", "–", "–"],
    ]
    assert spread([2.0], 1) == "2.0"


def test_the_clock_runs_for_the_innermost_phase() -> None:
    times = iter([0.0, 1.0, 3.0, 6.0, 10.0, 15.0])
    clock = Clock(lambda: next(times))
    with clock.phase("outer"), clock.phase("inner"):
        pass
    clock.settle()
    assert clock.seconds == {IDLE: 1.0 + 5.0, "outer": 2.0 + 4.0, "inner": 3.0}


class Work:
    def whole(self) -> int:
        return self.part() + 1

    def part(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("closed", "calls"),
    [
        pytest.param(True, {IDLE: 0, "whole": 1}, id="a closed phase keeps what is inside"),
        pytest.param(False, {IDLE: 0, "whole": 1, "part": 1}, id="an open one does not"),
    ],
)
def test_borders_are_wrapped_for_the_block_only(closed: bool, calls: dict[str, int]) -> None:
    before = (Work.whole, Work.part)
    with measuring([Border(Work, "whole", "whole", closed), Border(Work, "part", "part")]) as clock:
        assert Work().whole() == 2
    assert clock.calls == calls
    assert (Work.whole, Work.part) == before


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(["--peer", "vllm"], "'vllm' is not NAME=COMMAND", id="a peer without a command"),
        pytest.param(["--peer", "octavo=true"], "an engine of that name already", id="a peer with our name"),
        pytest.param(["--model", "/nowhere/model"], "does not exist", id="a model that is not there"),
        pytest.param(["--slow-peer", "b=true", "--slow-rounds", "0"], "never runs", id="a slow peer without rounds"),
        pytest.param(["--taken", "2"], "'2' is not between 0 and 1", id="more than a core taken"),
        pytest.param(["--pairs", "0"], "'0' is not a whole number", id="no rounds"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        serving.main(arguments)
    assert error in capsys.readouterr().err
