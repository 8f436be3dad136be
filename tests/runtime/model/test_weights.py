"""Safetensors folders: what is read, and how a folder that is not whole is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from octavo_runtime.model.config import ModelError
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.weights import SafetensorsCheckpoint, WeightReader, open_checkpoint
from tests.runtime.models import save_tiny_model

Q_PROJ, NORM = "model.layers.1.self_attn.q_proj.weight", "model.norm.weight"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("saved"))


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy that the test may damage."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def load(path: Path, told: list[int] | None = None) -> Decoder:
    progress: Callable[[int], None] = (lambda percent: None) if told is None else told.append
    checkpoint = open_checkpoint(path)
    return Decoder(checkpoint.config, WeightReader(checkpoint, torch.float32, progress), 8, torch.device("cpu"))


def rewrite(folder: Path, **changes: torch.Tensor | None) -> None:
    """Replace or add tensors; None takes one away."""
    tensors: dict[str, torch.Tensor | None] = {**load_file(folder / "model.safetensors"), **changes}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, folder / "model.safetensors")


def shard(folder: Path) -> list[Path]:
    """Split the folder's file in two, with an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    files = [folder / f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    weight_map: dict[str, str] = {}
    for file, part in zip(files, (names[::2], names[1::2]), strict=True):
        save_file({name: tensors[name] for name in part}, file)
        weight_map |= dict.fromkeys(part, file.name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return files


def test_reads_tensors_as_new_ones_of_the_wanted_type(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    checkpoint = SafetensorsCheckpoint(folder)
    assert checkpoint.names() == set(stored)
    tensor = checkpoint.read(Q_PROJ, torch.bfloat16)
    assert torch.equal(tensor, stored[Q_PROJ].bfloat16())
    tensor.zero_()
    assert torch.equal(checkpoint.read(Q_PROJ, torch.float32), stored[Q_PROJ])


def test_shards_are_one_checkpoint(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    shard(folder)
    checkpoint = SafetensorsCheckpoint(folder)
    assert checkpoint.names() == set(stored)
    assert all(torch.equal(checkpoint.read(name, torch.float32), tensor) for name, tensor in stored.items())


def test_progress_goes_up_to_100_percent(folder: Path) -> None:
    told: list[int] = []
    load(folder, told)
    assert told == sorted(told)
    assert told[-1] == 100
    assert len(told) == len(load_file(folder / "model.safetensors"))


def test_constants_of_older_files_are_not_counted_as_unused(folder: Path) -> None:
    rewrite(folder, **{"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)})
    load(folder)


def test_the_makers_own_form_beside_model_safetensors_is_left_alone(folder: Path) -> None:
    save_file({"tok_embeddings.weight": torch.ones(2, 2)}, folder / "consolidated.safetensors")
    load(folder)


def test_a_head_stored_beside_tied_embeddings_is_used(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    head = load_file(folder / "model.safetensors")["lm_head.weight"]
    hidden = torch.ones(1, head.shape[1])
    torch.testing.assert_close(load(folder).logits(hidden), hidden @ head.T)


def test_tied_embeddings_are_the_head_where_none_is_stored(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    rewrite(folder, **{"lm_head.weight": None})
    embedding = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    hidden = torch.ones(1, embedding.shape[1])
    torch.testing.assert_close(load(folder).logits(hidden), hidden @ embedding.T)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({Q_PROJ: None}, ("holds no tensor", Q_PROJ), id="missing"),
        pytest.param({"lm_head.weight": None}, ("holds no tensor", "lm_head.weight"), id="missing head, not tied"),
        pytest.param({"extra.weight": torch.ones(2)}, ("1 tensors", "does not use", "extra.weight"), id="unused"),
        pytest.param(
            {"model.layers.0.self_attn.q_proj.bias": torch.ones(128)},
            ("does not use", "layers.0.self_attn.q_proj.bias"),
            id="a bias that llama has not",
        ),
        pytest.param({Q_PROJ: torch.ones(127, 64)}, (Q_PROJ, "(127, 64)", "(128, 64)"), id="wrong shape"),
        pytest.param({NORM: torch.ones(64, 1)}, (NORM, "(64, 1)", "(64,)"), id="wrong rank"),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    folder: Path, changes: dict[str, torch.Tensor | None], named: tuple[str, ...]
) -> None:
    rewrite(folder, **changes)
    with pytest.raises(ModelError) as refusal:
        load(folder)
    for word in (str(folder), *named):
        assert word in str(refusal.value)


def test_a_missing_shard_is_named(folder: Path) -> None:
    shard(folder)[1].unlink()
    with pytest.raises(ModelError, match=r"model-00002-of-00002\.safetensors.*the download is incomplete"):
        load(folder)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": []}'])
def test_a_damaged_index_is_named(folder: Path, text: str) -> None:
    shard(folder)
    (folder / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ModelError, match=r"model\.safetensors\.index\.json .*fetch it again"):
        load(folder)


@pytest.mark.parametrize(
    "kept_bytes", [0, 5, 100, -1], ids=["empty", "in the size", "in the header", "in the last tensor"]
)
def test_a_cut_file_is_named(folder: Path, kept_bytes: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept_bytes])
    with pytest.raises(ModelError, match=r"model\.safetensors cannot be read as safetensors .*fetch it again"):
        load(folder)


def test_a_folder_without_weights_says_what_it_needs(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"holds no \*\.safetensors file: give a folder"):
        load(folder)


def test_a_path_that_is_not_there_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere does not exist: give a GGUF file or a folder"):
        open_checkpoint(tmp_path / "nowhere")


def test_a_file_of_another_kind_says_what_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"PK\x03\x04")
    with pytest.raises(ModelError, match=r"model\.bin is neither a GGUF file nor a folder"):
        open_checkpoint(tmp_path / "model.bin")
