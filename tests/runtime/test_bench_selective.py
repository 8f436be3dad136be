"""`bench selective` from end to end on a tiny model: a row for each budget and way to keep, and more sessions within a budget."""

from pathlib import Path

import pytest

from bench import selective
from tests.runtime.server.tiny_model import save_tiny_chat_model


def rows(output: str) -> list[list[str]]:
    lines = [line for line in output.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


def test_every_budget_has_its_rows_beside_the_whole_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert selective.main(["--model", str(save_tiny_chat_model(tmp_path)), "--quick"]) == 0
    heading, whole, window, importance, of_sessions, all_kept, budget = rows(capsys.readouterr().out)
    assert (heading, of_sessions) == (list(selective.QUALITY), list(selective.SESSIONS))
    assert (whole[0], whole[3], whole[4]) == ("all", "0.0000", "100.0%")
    assert [row[:2] for row in (window, importance)] == [["sliding window", "128"], ["importance", "128"]]
    assert float(window[3]) > 0
    assert float(importance[3]) > 0
    assert window[2:5] != importance[2:5]
    assert int(budget[1]) > int(all_kept[1])


def test_a_budget_that_evicts_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="a budget of 512 evicts nothing of 300 tokens"):
        selective.main(["--model", str(tmp_path), "--budgets", "512", "--context", "300"])
