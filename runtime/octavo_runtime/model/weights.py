"""Weights on disk: one `Checkpoint` for a safetensors folder and for a GGUF file, under the Hugging Face tensor names.

Both are mapped, not read: a tensor costs memory when it is asked for. `WeightReader` makes missing and unused tensors named errors,
so that a file of another model never loads half.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open

from octavo_runtime.gguf_file import is_gguf
from octavo_runtime.model import config as model_config
from octavo_runtime.model.config import ModelConfig, ModelError
from octavo_runtime.model.fingerprint import StoredTensor, fingerprint
from octavo_runtime.model.gguf_weights import GgufCheckpoint
from octavo_runtime.model.sharding import Cut, check_whole
from octavo_runtime.source import layout


class Checkpoint(Protocol):
    """`config`, and tensors by their Hugging Face names; `path` is what errors name."""

    path: Path
    config: ModelConfig

    def names(self) -> set[str]: ...

    def read(self, name: str, dtype: torch.dtype, part: Cut | None = None) -> torch.Tensor:
        """The whole tensor or a part of it, all that is read, as a new, writable one of `dtype`. Raises ModelError where the
        tensor has another size along the part's axis than it should."""
        ...

    def fingerprint(self) -> bytes:
        """32 bytes that are equal where keys and values computed with two checkpoints are, see `model/fingerprint.py`."""
        ...


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a GGUF file or a folder with `config.json` and safetensors. Raises ModelError that says what is there instead."""
    if is_gguf(path):
        return GgufCheckpoint(path)
    if path.is_dir():
        return SafetensorsCheckpoint(path)
    if not path.exists():
        raise ModelError(
            f"model {path} does not exist: give a GGUF file or a folder with config.json and *.safetensors"
        )
    raise ModelError(f"model {path} is neither a GGUF file nor a folder with config.json and *.safetensors")


def stored_files(path: Path) -> list[Path]:
    """The files that hold the weights of a model that was opened before."""
    return _shards(path) if path.is_dir() else [path]


class SafetensorsCheckpoint:
    """A Hugging Face folder: `config.json`, and `model.safetensors` or shards named by `model.safetensors.index.json`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.config = model_config.from_hugging_face(folder)
        self._file_of = {name: file for file in _shards(folder) for name in _names_in(file)}

    def names(self) -> set[str]:
        return {
            name for name in self._file_of if not name.endswith("rotary_emb.inv_freq")
        }  # older files store this constant

    def read(self, name: str, dtype: torch.dtype, part: Cut | None = None) -> torch.Tensor:
        with safe_open(self._file_of[name], framework="pt") as file:
            if part is None:
                tensor: torch.Tensor = file.get_tensor(name)
                return tensor.to(dtype, copy=True)
            stored = file.get_slice(name)
            check_whole(self.path, name, stored.get_shape(), part)
            rows_or_columns = slice(part.begin, part.end)
            tensor = stored[rows_or_columns] if part.axis == 0 else stored[:, rows_or_columns]
            return tensor.to(dtype, copy=True)

    def fingerprint(self) -> bytes:
        return fingerprint(self.config, (entry for file in set(self._file_of.values()) for entry in _table_of(file)))


def _shards(folder: Path) -> list[Path]:
    index = folder / layout.INDEX
    try:
        names = layout.weight_files((path.name for path in folder.iterdir()), index.read_text)
    except (layout.LayoutError, OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{index} {error}: fetch it again") from error
    if not names:
        raise ModelError(f"{folder} holds no *.safetensors file: give a folder with config.json and *.safetensors")
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise ModelError(
            f"{index} names {', '.join(missing)}, which {folder} does not hold: the download is incomplete"
        )
    return [folder / name for name in names]


def _names_in(file: Path) -> list[str]:
    try:
        with safe_open(file, framework="pt") as opened:
            return list(opened.keys())
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{file} cannot be read as safetensors ({error}): fetch it again") from error


def _table_of(file: Path) -> Iterator[StoredTensor]:
    """The header of a safetensors file that was opened before: its length in 8 bytes, then JSON with offsets from its end.

    Source: https://github.com/huggingface/safetensors#format
    """
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(length))
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            yield StoredTensor(name, entry["dtype"], tuple(entry["shape"]), file, 8 + length + begin, end - begin)


class WeightReader:
    """Hands out a checkpoint's tensors once each, checks their shapes, and names what is missing or was never asked for."""

    def __init__(self, checkpoint: Checkpoint, dtype: torch.dtype, progress: Callable[[int], None]) -> None:
        self._checkpoint, self._path = checkpoint, checkpoint.path
        self._dtype = dtype
        self._progress = progress
        self._left = checkpoint.names()
        self._total = max(1, len(self._left))

    def has(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> torch.Tensor:
        """The tensor `name` of `shape`, in `dtype` or the reader's. Raises ModelError if it is missing or has another shape."""
        if name not in self._left:
            raise ModelError(f"{self._path} holds no tensor '{name}', which its configuration asks for")
        self._left.remove(name)
        tensor = self._checkpoint.read(name, dtype or self._dtype)
        if tuple(tensor.shape) != shape:
            raise ModelError(
                f"{self._path}: tensor '{name}' has shape {tuple(tensor.shape)}, the configuration asks for {shape}"
            )
        self._progress(100 * (self._total - len(self._left)) // self._total)
        return tensor

    def skip(self, name: str) -> None:
        """Count the tensor as taken, for somebody who has what it holds."""
        self._left.remove(name)
        self._progress(100 * (self._total - len(self._left)) // self._total)

    def finish(self) -> None:
        """Raises ModelError if a tensor was left over."""
        if self._left:
            names = ", ".join(sorted(self._left)[:8])
            raise ModelError(f"{self._path} holds {len(self._left)} tensors that the model does not use: {names}")
