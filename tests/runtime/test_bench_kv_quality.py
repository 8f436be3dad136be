"""`bench kv_quality` from end to end on a tiny model: every pair of formats has its row beside the full cache's."""

from pathlib import Path

import pytest

from bench import kv_quality
from tests.runtime.server.tiny_model import save_tiny_chat_model


def test_every_pair_of_formats_has_a_row_beside_the_full_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kv_quality.main(["--model", str(save_tiny_chat_model(tmp_path)), "--quick"]) == 0
    rows = [line.strip("| ").split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    heading, full, *others = [[cell.strip() for cell in row] for row in rows]
    assert heading == list(kv_quality.HEADING)
    assert len({(keys, values) for keys, values, *_ in [full, *others]}) == 9
    assert full[3] == "100%"
    assert (float(full[5]), full[6]) == (0.0, "100.0%")
    assert all(float(row[5]) > 0 and float(row[3].rstrip("%")) < 100 for row in others)
    assert all(float(row[9]) > 0 for row in [full, *others])
