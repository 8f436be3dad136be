"""`octavo bench`: from a source checkout, by name, with the benchmark's own arguments."""

import sys
from pathlib import Path

import pytest

from octavo_runtime.cli import main
from octavo_runtime.cli_bench import bench, benchmarks


@pytest.fixture(autouse=True)
def own_process_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark gets the process's arguments and module path; the tests' own come back afterwards."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_without_a_name_the_benchmarks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"paging", "serving"} <= {line.split()[0] for line in lines}
    assert all(len(line.split()) > 3 for line in lines)  # each with a sentence


def test_modules_that_are_no_programs_are_no_benchmarks() -> None:
    assert not {"workload", "static_batches", "seeds", "__init__"} & set(benchmarks())


def test_programs_are_modules_and_packages_with_a_main(tmp_path: Path) -> None:
    (tmp_path / "bench" / "wide").mkdir(parents=True)
    (tmp_path / "bench" / "__init__.py").touch()
    (tmp_path / "bench" / "narrow.py").write_text(
        '"""One\nsentence.\n\nMore."""\n\nif __name__ == "__main__":\n    print(1)\n'
    )
    (tmp_path / "bench" / "wide" / "__main__.py").write_text('"""Two."""\n')
    (tmp_path / "bench" / "part.py").write_text('"""No program."""\n')
    assert benchmarks(tmp_path) == {"narrow": "One sentence.", "wide": "Two."}


def test_an_unknown_benchmark_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "speed"]) == 2
    error = capsys.readouterr().err
    assert "'speed'" in error
    assert "paging" in error


def test_outside_a_checkout_the_error_says_where_the_benchmarks_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("paging", [], tmp_path) == 2
    assert "clone Octavo's repository" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(["--only", "speed"], "invalid choice: 'speed'", id="a section that is none"),
        pytest.param(["--only", "picture"], "draws nothing without --plot", id="a picture without a place"),
        pytest.param(["--plot", "/nowhere/out.png"], "its folder does not exist", id="a place that is not there"),
        pytest.param(["--model", "/nowhere/model"], "does not exist", id="a model that is not there"),
        pytest.param(["--pairs", "0"], "'0' is not a whole number", id="no pairs"),
        pytest.param(["--scale", "0"], "'0' is not a factor", id="no requests"),
    ],
)
def test_paging_refuses_at_once_what_cannot_be(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "paging", *arguments]) == 2
    assert error in capsys.readouterr().err


def test_paging_ends_with_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "paging", "--only", "shared-prefix", "--scale", "0.1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if "one prefix / (prefix once + tails)" in line)
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[2] == "≤ 1.05 ×"
    assert cells[4] == "yes"
    assert "not to be quoted" in lines[-1]
