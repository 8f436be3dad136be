"""The benchmark of tiers from end to end on a tiny model: what the tiers bring back is not computed, and the answers stay."""

from pathlib import Path

import pytest

from bench import tiers
from octavo_runtime.engine.tiering import Tiering
from tests.runtime.models import save_tiny_model


def test_each_tier_saves_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A tiny model often computes faster than a disk reads: here everything that is kept is fetched, whatever the clock says.
    monkeypatch.setattr(Tiering, "_pays", lambda tiering, tokens, fetch_s: True)
    model = save_tiny_model(tmp_path / "model")
    sizes = ["--sessions", "12", "--turns", "3", "--asked", "40", "--answered", "8"]
    assert tiers.main(["--model", str(model), *sizes]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    rows = {cells[1].strip(): [cell.strip() for cell in cells[2:-1]] for cells in (line.split("|") for line in lines)}
    heading, none, memory, both, restarted = rows.values()
    assert heading[0] == "hit rate"
    rates = [float(row[0].removesuffix(" %")) for row in (none, memory, both, restarted)]
    assert rates[0] < 20 < 40 < min(rates[1:])
    assert [row[-1] for row in (none, memory, both, restarted)] == ["24 of 24", "24 of 24", "24 of 24", "12 of 12"]
