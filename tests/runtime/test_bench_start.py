"""`bench start` from end to end on a tiny model."""

import re
from pathlib import Path

import pytest

from bench import start
from tests.kernels.cpu.available import cpu_kernels_run
from tests.runtime.server.tiny_model import save_tiny_chat_model


@pytest.mark.skipif(not cpu_kernels_run(), reason="the CPU kernels need AVX2 and, to be compiled, g++")
def test_every_start_has_its_phases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model").mkdir()
    model = save_tiny_chat_model(tmp_path / "model")
    arguments = ["--model", str(model), "--rounds", "1", "--only", "preloaded", "transformers-warm"]
    assert start.main(arguments) == 0
    rows = {line.split("|")[1].strip(): line for line in capsys.readouterr().out.splitlines() if line.startswith("|")}
    numbers = {name: [float(one) for one in re.findall(r"\d+\.\d\d", rows[name])] for name in ("preloaded",)}
    imports, weights, warmup, api, ready, least, most, first_token = numbers["preloaded"][:8]
    assert ready == least == most < first_token
    assert imports + weights + warmup + api == pytest.approx(ready, abs=0.03)
    assert rows["transformers-warm"].count("| – |") >= 1  # no warm-up, no API
