"""The speed benchmarks from end to end on a tiny model: they run, and print what they say they print."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from bench import ladder, scaling, serving
from tests.runtime.server.tiny_model import save_tiny_chat_model

PEER = """print('{"engine": "stone", "best_tok_s": 0.5, "single_tok_s": 0.25}')"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_chat_model(tmp_path_factory.mktemp("model"))


def cells(output: str, engine: str) -> list[str]:
    row = next(line for line in output.splitlines() if line.startswith(f"| {engine} "))
    return [cell.strip() for cell in row.split("|")[1:-1]]


def test_serving_ends_with_a_table_of_all_engines(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    peer = f"stone={shlex.join([sys.executable, '-c', PEER])}"
    arguments = ["--model", str(model), "--requests", "2", "--pairs", "1", "--http", "--peer", peer]
    assert serving.main(arguments) == 0
    output = capsys.readouterr().out
    ours = cells(output, "octavo")
    assert float(cells(output, "stone")[2]) == pytest.approx(float(ours[1]) / 0.5, rel=0.1)
    for engine in ("octavo http", "transformers"):
        assert all(float(cell) > 0 for cell in cells(output, engine)[1:])
    assert output.count("load average") == 5  # in the heading and before each run


def test_the_profile_accounts_for_every_kind_of_work(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert serving.main(["--model", str(model), "--requests", "2", "--profile"]) == 0
    batch, stream = capsys.readouterr().out.split("one stream, 128 tokens out")
    for part in (batch, stream):
        phases = dict(re.findall(r"^(\S.*?) +(\d+\.\d)%", part, re.MULTILINE))
        assert {"GEMM", "LM head", "attention", "elementwise", "Python: plan", "idle"} <= set(phases)
        assert sum(map(float, phases.values())) == pytest.approx(100, abs=0.1 * len(phases))


def test_scaling_ends_with_a_verdict_and_a_picture(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "scaling.png"
    arguments = ["--model", str(model), "--only", "batch", "--repeats", "1", "--plot", str(picture)]
    assert scaling.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in lines if re.match(r" +\d+ ", line)] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert lines[-2].startswith("batch: ")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_burst_with_and_without_the_ladder_loses_no_request(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "ladder.png"
    arguments = ["--model", str(model), "--pools", "2", "--kv-cache-memory", "256Ki", "--plot", str(picture)]
    assert ladder.main(arguments) == 0
    output = capsys.readouterr().out
    assert output.rstrip().endswith("no request was lost")
    # How high it climbs with the ladder depends on how fast the requests come.
    assert cells(output, "highest level")[2] == "0"
    assert picture.read_bytes().startswith(b"\x89PNG")
