"""Weights on disk: one `Checkpoint` for a safetensors folder and for a GGUF file, under the Hugging Face tensor names.

Both are mapped, not read: a tensor costs memory when it is asked for. `WeightReader` makes missing and unused tensors named errors,
so that a file of another model never loads half.
"""

import json
import math
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from octavo_runtime.gguf_file import GgufError, TensorInfo, is_gguf, read_header
from octavo_runtime.model import config as model_config
from octavo_runtime.model.config import ModelConfig, ModelError

# Elements decoded in one call. CPU seconds for 80 tensors of SmolLM2 (Q4_1, Q8_0), two runs: 0.31 and 0.55 at 2**17, 0.40 at 2**16,
# 0.83 to 0.98 at 2**20, and 0.85 to 1.13 for whole tensors, which the package takes 16 rows at a time.
_DECODE_ELEMENTS = 1 << 17


class Checkpoint(Protocol):
    """`config`, and tensors by their Hugging Face names; `path` is what errors name."""

    path: Path
    config: ModelConfig

    def names(self) -> set[str]: ...

    def read(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """The whole tensor as a new, writable one of `dtype`."""
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

    def read(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        with safe_open(self._file_of[name], framework="pt") as file:
            tensor: torch.Tensor = file.get_tensor(name)
            return tensor.to(dtype, copy=True)


def _shards(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        names = _indexed(index)
        missing = [name for name in names if not (folder / name).exists()]
        if missing:
            raise ModelError(
                f"{index} names {', '.join(missing)}, which {folder} does not hold: the download is incomplete"
            )
        return [folder / name for name in names]
    whole = folder / "model.safetensors"  # beside it some folders hold the weights once more in their maker's own form
    files = [whole] if whole.exists() else sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(f"{folder} holds no *.safetensors file: give a folder with config.json and *.safetensors")
    return files


def _indexed(index: Path) -> list[str]:
    """The files that an index names."""
    try:
        return sorted(set(json.loads(index.read_text())["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{index} cannot be read as an index of shards ({error!r}): fetch it again") from error


def _names_in(file: Path) -> list[str]:
    try:
        with safe_open(file, framework="pt") as opened:
            return list(opened.keys())
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{file} cannot be read as safetensors ({error}): fetch it again") from error


class GgufCheckpoint:
    """A GGUF file; quantised blocks are decoded by the `gguf` package when a tensor is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._header = read_header(path)
        except GgufError as error:
            raise ModelError(f"{error}; fetch the file again") from error
        try:
            self.config = model_config.from_gguf(path, self._header)
        except GgufError as error:
            raise ModelError(f"{path}: {error}") from error
        with path.open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._gguf_name = _hugging_face_names(self.config.layers)
        unknown = set(self._header.tensors) - set(self._gguf_name.values())
        if unknown:
            raise ModelError(f"{path} holds tensors that the model does not use: {', '.join(sorted(unknown)[:8])}")

    def names(self) -> set[str]:
        return {name for name, stored in self._gguf_name.items() if stored in self._header.tensors}

    def read(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        stored = self._gguf_name[name]
        tensor = torch.from_numpy(self._decode(stored, self._header.tensors[stored])).to(dtype)
        if self._interleaved and name.endswith((".q_proj.weight", ".k_proj.weight")):
            tensor = _to_halves(tensor, self.config.heads if ".q_proj." in name else self.config.kv_heads)
        return tensor

    @property
    def _interleaved(self) -> bool:
        """The llama architecture stores q and k rows for rotary pairs (2i, 2i + 1); ours are halves (i, i + D/2)."""
        return self._header.metadata["general.architecture"] == "llama"

    def _decode(self, name: str, info: TensorInfo) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        # Imported here: 0.3 s that a safetensors model does not need.
        import gguf

        try:
            kind = gguf.GGMLQuantizationType(info.ggml_type)
        except ValueError as error:
            raise ModelError(f"{self.path}: tensor '{name}' has the unknown type {info.ggml_type}") from error
        block_elements, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        if not math.prod(info.shape) or not info.shape or info.shape[-1] % block_elements:
            raise ModelError(f"{self.path}: tensor '{name}' has the shape {info.shape}, which {kind.name} cannot have")
        raw = self._rows(name, info.offset, math.prod(info.shape[:-1]), info.shape[-1] // block_elements * block_bytes)
        decoded = np.empty((len(raw), info.shape[-1]), dtype=np.float32)
        # Blocks lie one after another, so many rows can be given as one.
        step = max(1, _DECODE_ELEMENTS // info.shape[-1])
        try:
            for first in range(0, len(raw), step):
                part = raw[first : first + step]
                decoded[first : first + step] = gguf.quants.dequantize(part.reshape(1, -1), kind).reshape(len(part), -1)
        except NotImplementedError as error:
            raise ModelError(
                f"{self.path}: tensor '{name}' is {kind.name}, which cannot be decoded; use F16, BF16 or Q8_0"
            ) from error
        return decoded.reshape(info.shape)

    def _rows(
        self, name: str, offset: int, rows: int, row_bytes: int
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """The tensor's bytes `[rows, row_bytes]`, a view of the file."""
        end = offset + rows * row_bytes
        if end > len(self._memory):
            raise ModelError(
                f"{self.path} ends at byte {len(self._memory)}, tensor '{name}' needs {end}: it is cut short, fetch it again"
            )
        return np.frombuffer(self._memory, np.uint8, count=rows * row_bytes, offset=offset).reshape(rows, row_bytes)


def _to_halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorder the rows of each head from rotary pairs to rotary halves: `[heads · D, N]`."""
    rows, columns = weight.shape
    return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def _hugging_face_names(layers: int) -> dict[str, str]:
    """Hugging Face name → GGUF name."""
    names = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    parts = {
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    for layer in range(layers):
        for ours, theirs in parts.items():
            for kind in ("weight", "bias"):
                names[f"model.layers.{layer}.{ours}.{kind}"] = f"blk.{layer}.{theirs}.{kind}"
    return names


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

    def take(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """The tensor `name` of `shape`. Raises ModelError if it is missing or has another shape."""
        if name not in self._left:
            raise ModelError(f"{self._path} holds no tensor '{name}', which its configuration asks for")
        self._left.remove(name)
        tensor = self._checkpoint.read(name, self._dtype)
        if tuple(tensor.shape) != shape:
            raise ModelError(
                f"{self._path}: tensor '{name}' has shape {tuple(tensor.shape)}, the configuration asks for {shape}"
            )
        self._progress(100 * (self._total - len(self._left)) // self._total)
        return tensor

    def finish(self) -> None:
        """Raises ModelError if a tensor was left over."""
        if self._left:
            names = ", ".join(sorted(self._left)[:8])
            raise ModelError(f"{self._path} holds {len(self._left)} tensors that the model does not use: {names}")
