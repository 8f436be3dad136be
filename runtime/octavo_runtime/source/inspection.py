"""What a model needs of memory, told without loading it: from its configuration and the headers of its files.

Of a hub's model only those are read, by range: some kilobytes of safetensors, a few megabytes of a GGUF file with its vocabulary.
No torch, so that it starts in a fraction of a second.
"""

import collections
import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from octavo_runtime.gguf_file import CutShortError, GgufError, GgufHeader, is_gguf, parse_header, read_header
from octavo_runtime.model.config import ModelConfig, ModelError, from_gguf, from_hugging_face_json
from octavo_runtime.source.download import chosen
from octavo_runtime.source.hub import Hub, Listing, read_token
from octavo_runtime.source.layout import CONFIG, INDEX, LayoutError, weight_files
from octavo_runtime.source.reference import FORMS, HubReference, SourceError, check_source, hub_reference, local_path
from octavo_sizing.inspection import Inspection, StoredBytes
from octavo_sizing.model import Model

ReadBytes = Callable[[int, int], bytes]  # from a place up to another, of one file

_CONFIG_SUFFIX = ".json"
_ALONE = "`octavo inspect` and `octavo fit` also take"
_HEADER_BYTES = 64 << 10  # read at once of a safetensors file
_GGUF_HEADER_BYTES = 1 << 20  # read first; four times as much each time that the header goes on
_MOST_HEADER_BYTES = 256 << 20
_TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64", "F8_E4M3": "float8_e4m3"}
_PARTS = {  # of a tensor's name in both formats: the first that is in it tells what the tensor is for
    "norm": "norms",
    "embed_tokens": "embedding",
    "token_embd": "embedding",
    "lm_head": "head",
    "self_attn.": "attention",
    ".attn_": "attention",
    "mlp.": "mlp",
    ".ffn_": "mlp",
    "output.weight": "head",
}


@dataclasses.dataclass(frozen=True)
class _Tensor:
    name: str
    kind: str
    size_bytes: int


def inspect(source: str, token_file: str | None = None) -> Inspection:
    """Sizes of what `octavo serve` takes as a model; also of a `config.json` alone, by any name in .json, without weights.

    Raises SourceError, OSError, and ModelError or GgufError for what is wrong with the model's files.
    """
    check_source(source)
    reference = hub_reference(source)
    if reference is not None:
        return _of_hub(source, reference, Hub(read_token(token_file)))
    path = local_path(source)
    if path.is_dir():
        return _of_folder(source, path)
    if path.suffix == _CONFIG_SUFFIX and path.is_file():
        return _made(source, path, _json(path, path.read_bytes()), [])
    if is_gguf(path):
        return _of_gguf(source, path, read_header(path))
    what = "is neither a GGUF file nor a model folder" if path.exists() else "does not exist"
    raise SourceError(f"the model {path} {what}: {FORMS}; {_ALONE} a config.json alone")


def _of_folder(source: str, folder: Path) -> Inspection:
    raw = _json(folder / CONFIG, (folder / CONFIG).read_bytes()) if (folder / CONFIG).is_file() else None
    if raw is None:
        raise ModelError(f"{folder} has no {CONFIG}: give a folder with config.json and *.safetensors")
    try:
        names = weight_files((path.name for path in folder.iterdir()), (folder / INDEX).read_text)
    except LayoutError as error:
        raise ModelError(f"{folder / INDEX} {error}: fetch it again") from error
    if not names:
        raise ModelError(
            f"{folder} holds no *.safetensors file: give a folder with config.json and *.safetensors; "
            f"{_ALONE} {folder / CONFIG} alone"
        )
    tensors = [tensor for name in names for tensor in _in_file(folder / name)]
    return _made(source, folder / CONFIG, raw, tensors)


def _in_file(path: Path) -> list[_Tensor]:
    if not path.is_file():
        raise ModelError(f"{path} does not exist: the download is incomplete")
    with path.open("rb") as file:

        def read(begin: int, end: int) -> bytes:
            file.seek(begin)
            return file.read(end - begin)

        return list(_safetensors(path, read))


def _of_hub(source: str, reference: HubReference, hub: Hub) -> Inspection:
    listing = hub.listing(reference)
    files = chosen(reference, listing, hub)
    if files[0].name.endswith(".gguf"):
        header = _remote_header(reference, hub, listing, files[0].name, files[0].size_bytes)
        found = _of_gguf(source, Path(files[0].name), header)
    else:
        config = _json(Path(CONFIG), hub.read(reference, listing.commit, CONFIG))
        tensors = [
            tensor
            for file in files
            if file.name.endswith(".safetensors")
            for tensor in _safetensors(Path(file.name), _reader(reference, hub, listing, file.name))
        ]
        found = _made(source, Path(CONFIG), config, tensors)
    return dataclasses.replace(found, revision=listing.commit)


def _reader(reference: HubReference, hub: Hub, listing: Listing, name: str) -> ReadBytes:
    return lambda begin, end: hub.read(reference, listing.commit, name, begin, end)


def _remote_header(reference: HubReference, hub: Hub, listing: Listing, name: str, size_bytes: int) -> GgufHeader:
    read, got, wanted = _reader(reference, hub, listing, name), b"", _GGUF_HEADER_BYTES
    while True:
        got += read(len(got), min(wanted, size_bytes))
        try:
            return parse_header(got, Path(name))
        except CutShortError:
            if len(got) >= min(size_bytes, _MOST_HEADER_BYTES):
                raise
        wanted *= 4


def _safetensors(path: Path, read: ReadBytes) -> Iterator[_Tensor]:
    """The header: its length in 8 bytes, then JSON. Source: https://github.com/huggingface/safetensors#format"""
    begin = read(0, 8 + _HEADER_BYTES)
    length = int.from_bytes(begin[:8], "little")
    if len(begin) < 8 or length > _MOST_HEADER_BYTES:
        raise ModelError(f"{path} cannot be read as safetensors: fetch it again")
    text = begin[8 : 8 + length]
    header = _json(path, text if len(text) == length else text + read(8 + len(text), 8 + length))
    for name, entry in header.items():
        if name == "__metadata__" or name.endswith("rotary_emb.inv_freq"):
            continue
        try:
            first, last = entry["data_offsets"]
            yield _Tensor(name, str(entry["dtype"]), last - first)
        except (TypeError, KeyError, ValueError) as error:
            raise ModelError(f"{path}: tensor '{name}' is not described as safetensors are: fetch it again") from error


def _of_gguf(source: str, path: Path, header: GgufHeader) -> Inspection:
    # Imported here: 0.3 s that a safetensors model does not need.
    import gguf

    config, tensors = from_gguf(path, header), []
    for name, info in header.tensors.items():
        try:
            kind = gguf.GGMLQuantizationType(info.ggml_type)
        except ValueError as error:
            raise ModelError(f"{path}: tensor '{name}' has the unknown type {info.ggml_type}") from error
        elements, size_bytes = gguf.GGML_QUANT_SIZES[kind]
        tensors.append(_Tensor(name, kind.name, math.prod(info.shape) // elements * size_bytes))
    return _inspection(source, "gguf", config, tensors, "float32")


def _made(source: str, path: Path, raw: dict[str, Any], tensors: list[_Tensor]) -> Inspection:
    config = from_hugging_face_json(path, raw)
    return _inspection(
        source, "safetensors", config, tensors, str(raw.get("dtype") or raw.get("torch_dtype") or "float32")
    )


def _inspection(source: str, form: str, config: ModelConfig, tensors: list[_Tensor], dtype: str) -> Inspection:
    stored: collections.Counter[str] = collections.Counter()
    kinds: collections.Counter[str] = collections.Counter()
    for tensor in tensors:
        stored[_part(tensor.name)] += tensor.size_bytes
        kinds[tensor.kind] += tensor.size_bytes
    if kinds:
        [(most, _)] = kinds.most_common(1)
        dtype = _TYPES.get(most, most)
    sizes = {field.name: getattr(config, field.name) for field in dataclasses.fields(Model)}
    if stored["head"]:
        sizes["tied_embeddings"] = False  # as the decoder decides: a head that is stored is used
    return Inspection(source, form, dtype, StoredBytes(**stored), Model(**sizes))


def _part(name: str) -> str:
    """Of `StoredBytes`; a tensor of no known name is taken for a part of the layers."""
    return next((part for text, part in _PARTS.items() if text in name), "mlp")


def _json(path: Path, text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}): fetch it again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} is not a JSON object: fetch it again")
    return content


ERRORS = (SourceError, ModelError, GgufError, OSError)
