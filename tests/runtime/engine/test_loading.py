"""What `load` settles, and what it refuses by name."""

from pathlib import Path

import pytest
import torch

from octavo_kernels.cpu import library
from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.loading import LoadedModel, load
from octavo_runtime.model.weights import open_checkpoint
from tests.kernels.cpu.available import cpu_kernels_run
from tests.runtime.models import save_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def loaded(folder: Path, batch_invariant: bool = False, dtype: str = "float32") -> LoadedModel:
    config = ServeConfig(str(folder), dtype=dtype, kv_cache_memory=8 << 20, batch_invariant=batch_invariant)
    return load(config, lambda percent: None)


@pytest.mark.parametrize(
    ("batch_invariant", "name"), [(False, "reference"), (True, "tiled")], ids=["ordinary", "invariant"]
)
def test_the_flag_chooses_the_back_end(folder: Path, batch_invariant: bool, name: str) -> None:
    assert loaded(folder, batch_invariant).backend.name == name


@pytest.mark.skipif(not cpu_kernels_run(), reason="the CPU kernels need AVX2 and, to be compiled, g++")
@pytest.mark.parametrize("batch_invariant", [False, True], ids=["ordinary", "invariant"])
def test_the_cpu_kernels_compute_where_they_can_and_need_no_tiles(folder: Path, batch_invariant: bool) -> None:
    model = loaded(folder, batch_invariant, "auto")
    assert (model.backend.name, model.dtype) == ("cpu", torch.bfloat16)


def test_without_kernels_torch_computes_and_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(library, "cpu_flags", frozenset)
    assert loaded(folder, dtype="auto").backend.name == "reference"
    assert "plain torch computes, several times slower than the CPU kernels: this CPU has no AVX2" in caplog.text


def test_tells_the_fingerprint_of_the_files(folder: Path) -> None:
    assert loaded(folder).fingerprint == open_checkpoint(folder).fingerprint()


@pytest.mark.parametrize(
    ("batch_invariant", "text"),
    [
        pytest.param(True, "--batch-invariant: not on GPUs.*use --device cpu or leave it out", id="invariant"),
        pytest.param(False, "--device cuda: .*; use --device cpu", id="ordinary"),
    ],
)
def test_gpus_are_refused(batch_invariant: bool, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load(ServeConfig("nowhere", device="cuda", batch_invariant=batch_invariant), lambda percent: None)
