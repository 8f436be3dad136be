"""The benchmark of ranks from end to end on a tiny model."""

from pathlib import Path

import pytest

from bench import tensor_parallel
from tests.runtime.server.tiny_model import save_tiny_chat_model


def test_tables_of_all_reduces_and_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = save_tiny_chat_model(tmp_path)
    arguments = ["--model", str(model), "--degrees", "2", "--sequences", "3", "--tokens", "6", "--repeats", "5"]
    assert tensor_parallel.main(arguments) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| 2 |")]
    reduces, steps = rows
    assert len(reduces) == 1 + len(tensor_parallel.ROWS)
    assert steps[1] == "3"
    layers = 2
    # After each half of a layer and the embedding; the vote on memory, the best ids, what was drawn.
    assert int(steps[4]) == 2 * layers + 1 + 3
    assert all(float(cell.rstrip("%")) > 0 for cell in steps[2:])
