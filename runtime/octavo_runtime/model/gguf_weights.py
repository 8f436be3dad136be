"""Tensors of a GGUF file under their Hugging Face names, in the order of rows that our layers expect."""

import math
import mmap
from pathlib import Path

import numpy as np
import torch

from octavo_runtime.gguf_file import GgufError, TensorInfo, read_header
from octavo_runtime.model import config as model_config
from octavo_runtime.model.config import ModelError
from octavo_runtime.model.fingerprint import StoredTensor, fingerprint
from octavo_runtime.model.sharding import Cut, check_whole

# Elements decoded in one call. CPU seconds for 80 tensors of SmolLM2 (Q4_1, Q8_0), two runs: 0.31 and 0.55 at 2**17, 0.40 at 2**16,
# 0.83 to 0.98 at 2**20, and 0.85 to 1.13 for whole tensors, which the package takes 16 rows at a time.
_DECODE_ELEMENTS = 1 << 17


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

    def read(self, name: str, dtype: torch.dtype, part: Cut | None = None) -> torch.Tensor:
        stored = self._gguf_name[name]
        info = self._header.tensors[stored]
        if part is not None:
            check_whole(self.path, name, info.shape, part)
        tensor = torch.from_numpy(self._decode(stored, info, part)).to(dtype)
        if self._interleaved and name.endswith((".q_proj.weight", ".k_proj.weight")):
            tensor = _to_halves(tensor, len(tensor) // self.config.head_dim)
        return tensor

    def fingerprint(self) -> bytes:
        """A tensor's bytes are those up to the next one: the padding between them is zeros."""
        stored = sorted(self._header.tensors.items(), key=lambda item: item[1].offset)
        ends = [info.offset for _, info in stored[1:]] + [len(self._memory)]
        return fingerprint(
            self.config,
            (
                StoredTensor(name, f"ggml {info.ggml_type}", info.shape, self.path, info.offset, end - info.offset)
                for (name, info), end in zip(stored, ends, strict=True)
            ),
        )

    @property
    def _interleaved(self) -> bool:
        """The llama architecture stores q and k rows for rotary pairs (2i, 2i + 1); ours are halves (i, i + D/2)."""
        return self._header.metadata["general.architecture"] == "llama"

    def _decode(
        self, name: str, info: TensorInfo, part: Cut | None
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """Of a part, its rows; or the blocks of all rows that hold its columns."""
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
        if part is not None and part.axis == 0 and len(info.shape) > 1:
            raw, part = raw[part.begin : part.end], None
        begin, end = (0, info.shape[-1]) if part is None else (part.begin, part.end)
        blocks = slice(begin // block_elements * block_bytes, -(-end // block_elements) * block_bytes)
        raw = raw[:, blocks]
        decoded = np.empty((len(raw), raw.shape[1] // block_bytes * block_elements), dtype=np.float32)
        # Blocks lie one after another, so many rows can be given as one.
        step = max(1, _DECODE_ELEMENTS // decoded.shape[1])
        try:
            for first in range(0, len(raw), step):
                rows = raw[first : first + step]
                decoded[first : first + step] = gguf.quants.dequantize(rows.reshape(1, -1), kind).reshape(len(rows), -1)
        except NotImplementedError as error:
            raise ModelError(
                f"{self.path}: tensor '{name}' is {kind.name}, which cannot be decoded; use F16, BF16 or Q8_0"
            ) from error
        first = begin % block_elements
        decoded = decoded[:, first : first + end - begin]
        return decoded if len(info.shape) > 1 else decoded.reshape(-1)

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
