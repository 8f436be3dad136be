"""What tells two models' stored weights apart, and what does not."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.fingerprint import SPOT_BYTES, SPOTS, StoredTensor, fingerprint
from octavo_runtime.model.weights import open_checkpoint
from tests.runtime.model.gguf_model import write_gguf
from tests.runtime.models import save_tiny_model

CONFIG = ModelConfig(256, 64, 128, 2, 8, 2, 16, 1e-5, 1e4, 512, tied_embeddings=False)
Form = Callable[[Path], Path]
FORMS = [
    pytest.param(lambda folder: folder, id="safetensors"),
    pytest.param(lambda folder: write_gguf(folder / "model.gguf", folder), id="gguf"),
    pytest.param(lambda folder: write_gguf(folder / "model.gguf", folder, "Q8_0"), id="quantised gguf"),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("saved"))


def of(path: Path) -> bytes:
    return open_checkpoint(path).fingerprint()


def copy(folder: Path, to: Path, **changes: torch.Tensor) -> Path:
    shutil.copytree(folder, to)
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, **changes}, to / "model.safetensors", metadata={"format": "pt"})
    return to


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_elsewhere_is_the_same(saved: Path, tmp_path: Path, form: Form) -> None:
    first, second = (of(form(copy(saved, tmp_path / name))) for name in ("one", "another"))
    assert first == second
    assert len(first) == 32


@pytest.mark.parametrize("form", FORMS)
def test_a_change_of_any_tensor_is_another_model(saved: Path, tmp_path: Path, form: Form) -> None:
    tensors = load_file(saved / "model.safetensors")
    changed = [
        of(form(copy(saved, tmp_path / str(index), **{name: tensor * 1.01})))
        for index, (name, tensor) in enumerate(tensors.items())
    ]
    assert len({of(form(copy(saved, tmp_path / "same"))), *changed}) == len(tensors) + 1


def test_shards_are_the_same_model_as_one_file(saved: Path, tmp_path: Path) -> None:
    folder = copy(saved, tmp_path / "sharded")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    files = {name: f"model-{index % 2}.safetensors" for index, name in enumerate(sorted(tensors))}
    for file in set(files.values()):
        save_file({name: tensor for name, tensor in tensors.items() if files[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    assert of(folder) == of(saved)


@pytest.mark.parametrize(
    ("key", "same"),
    [
        pytest.param("llama.rope.freq_base", False, id="what rotates keys"),
        pytest.param("llama.attention.layer_norm_rms_epsilon", False, id="what scales them"),
        pytest.param("tokenizer.chat_template", True, id="the chat template changes no key"),
    ],
)
def test_metadata_counts_where_it_changes_keys(saved: Path, tmp_path: Path, key: str, same: bool) -> None:
    value: float | str = "{{ messages }}" if same else 0.5
    changed = write_gguf(tmp_path / "changed.gguf", saved, metadata={key: value})
    assert (of(changed) == of(write_gguf(tmp_path / "model.gguf", saved))) == same


def sparse(path: Path, tensors: int, tensor_bytes: int) -> list[StoredTensor]:
    """Tensors of zeros in a file that takes no room."""
    with path.open("wb") as file:
        file.truncate(tensors * tensor_bytes)
    return [
        StoredTensor(f"{i:06}", "U8", (tensor_bytes,), path, i * tensor_bytes, tensor_bytes) for i in range(tensors)
    ]


def test_what_is_read_does_not_grow_with_the_model(tmp_path: Path) -> None:
    """Read whole, either file would take minutes."""
    many = sparse(tmp_path / "many", 50 * SPOTS, 1 << 20)
    large = sparse(tmp_path / "large", 2, 1 << 36)
    assert fingerprint(CONFIG, many) != fingerprint(CONFIG, large)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.99], ids=lambda share: f"at {share:.0%}")
def test_a_large_tensor_is_sampled_all_over(tmp_path: Path, share: float) -> None:
    tensor_bytes = 8 * SPOTS * SPOT_BYTES
    tensors = sparse(tmp_path / "model", 1, tensor_bytes)
    before = fingerprint(CONFIG, tensors)
    with (tmp_path / "model").open("r+b") as file:
        file.seek(int(share * tensor_bytes))
        file.write(b"\1" * (9 * SPOT_BYTES))  # wider than the room between two spots
    assert fingerprint(CONFIG, tensors) != before
