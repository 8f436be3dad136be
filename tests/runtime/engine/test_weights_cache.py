"""The weights' cache over a tiny model: the second load maps what the first packed, and computes the same."""

import logging
import os
import threading
from pathlib import Path

import pytest
import torch

from octavo_kernels.cpu.kernels import CpuKernels
from octavo_kernels.cpu.library import best_library
from octavo_runtime.model.config import ModelError
from octavo_runtime.model.cpu_compute import CpuCompute
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.packed_weights import WeightsCache
from octavo_runtime.model.weights import WeightReader, open_checkpoint
from tests.kernels.cpu.available import cpu_kernels_run
from tests.runtime.models import save_tiny_model

pytestmark = pytest.mark.skipif(not cpu_kernels_run(), reason="the CPU kernels need AVX2 and, to be compiled, g++")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "model")


def loaded(model: Path, folder: Path | None) -> tuple[Decoder, threading.Thread | None]:
    """A decoder that was loaded with the cache in `folder`, and who writes what was packed."""
    checkpoint = open_checkpoint(model)
    cache, kernels = WeightsCache(folder, checkpoint), CpuKernels(best_library(1))
    reader = WeightReader(checkpoint, torch.bfloat16, lambda percent: None)
    decoder = Decoder(checkpoint.config, reader, 16, torch.device("cpu"), CpuCompute(kernels, cache.packer(kernels)))
    return decoder, cache.keep()


def logits(model: Path, folder: Path | None) -> torch.Tensor:
    """Of some rows of hidden state, once the cache is written."""
    decoder, writing = loaded(model, folder)
    if writing is not None:
        writing.join()
    return decoder.logits(torch.randn(3, decoder.config.hidden_size, generator=torch.Generator().manual_seed(1)))


def test_the_second_load_maps_what_the_first_packed(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    folder = tmp_path / "cache"
    packed, first = logits(model, folder), caplog.text
    caplog.clear()
    mapped, second = logits(model, folder), caplog.text
    assert "packing anew" in first
    assert "there is no file yet" in first
    assert "wrote" in first
    assert "mapped" in second
    assert "wrote" not in second
    assert torch.equal(mapped, packed)
    assert torch.equal(mapped, logits(model, None))


def test_weights_that_changed_are_packed_anew_and_the_old_file_is_kept_once(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    folder = tmp_path / "cache"
    for number in range(3):
        logits(model, folder)
        (model / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:-1] + bytes([number]))
    assert caplog.text.count("wrote") == 3
    assert len(list(folder.glob("*.packed"))) == 2


def test_the_same_content_at_another_time_is_packed_anew(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    logits(model, tmp_path / "cache")
    os.utime(model / "model.safetensors", ns=(1, 1))
    logits(model, tmp_path / "cache")
    assert "it is for another time of the files" in caplog.text


def test_a_folder_that_cannot_be_is_a_warning(model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    logits(model, tmp_path / "file" / "cache")
    assert "cannot be written (Not a directory), so the next start packs again" in caplog.text


def test_two_starts_at_once_leave_one_good_file(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    writers = [writing for _, writing in (loaded(model, folder), loaded(model, folder)) if writing is not None]
    assert writers, "the first of them writes"
    for writing in writers:
        writing.join()
    assert [file.suffix for file in sorted(folder.iterdir())] == [".lock", ".packed"]
    assert torch.equal(logits(model, folder), logits(model, None))


def test_a_tensor_that_is_left_over_is_named_with_the_cache_too(model: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    logits(model, tmp_path / "cache")
    file = model / "model.safetensors"
    save_file({**load_file(file), "model.extra": torch.zeros(1)}, file)
    with pytest.raises(ModelError, match=r"1 tensors that the model does not use: model\.extra"):
        logits(model, tmp_path / "cache")
