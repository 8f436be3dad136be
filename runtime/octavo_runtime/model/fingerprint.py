"""What makes two stored models the same for cached keys and values: 32 bytes over configuration, tensor table and sampled content.

Where a file lies, how it is sharded, its tokenizer and its chat template do not count: given the same token ids, they change no key
or value. Content is sampled, because reading it all would take as long as loading: at most `SPOTS` spots of `SPOT_BYTES`, 4 MiB
together, however large the model is (7 ms for SmolLM2's 272 tensors in the page cache; a cold start reads those pages anyway).
The spots are shared out evenly, each tensor's in the middle of equal parts of it; with more tensors than spots, every n-th tensor
is looked at. Training changes nearly every number of the tensors that it touches, a merged adapter or an edited matrix too, so
one spot in such a tensor tells two fine-tunes apart. What goes unseen is an edit of a few rows of a large tensor, such as one
token's embedding, that lies between the spots: such files must not share a stored cache.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from octavo_runtime.model.config import ModelConfig

SPOTS = 1024
SPOT_BYTES = 4096


@dataclasses.dataclass(frozen=True, order=True)
class StoredTensor:
    """One tensor as it lies in a file: `kind` is the file format's name of its type."""

    name: str
    kind: str
    shape: tuple[int, ...]
    file: Path
    offset: int  # bytes from the file's begin
    size: int  # bytes


def fingerprint(config: ModelConfig, tensors: Iterable[StoredTensor]) -> bytes:
    """sha256 (32 bytes) over both. Raises OSError where a file cannot be read."""
    table = sorted(tensors)
    digest = hashlib.sha256(json.dumps(dataclasses.asdict(config), sort_keys=True).encode())
    digest.update(json.dumps([(entry.name, entry.kind, entry.shape, entry.size) for entry in table]).encode())
    sampled = table[:: -(-len(table) // SPOTS) or 1]
    spots = SPOTS // len(sampled) if sampled else 0
    descriptors = {file: os.open(file, os.O_RDONLY) for file in sorted({entry.file for entry in sampled})}
    try:
        for entry in sampled:
            for begin, count in _spots(entry, spots):
                digest.update(os.pread(descriptors[entry.file], count, begin))
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)
    return digest.digest()


def _spots(entry: StoredTensor, count: int) -> list[tuple[int, int]]:
    """(begin, bytes) of `count` spots; a tensor that is no larger than they are together is read whole."""
    if entry.size <= count * SPOT_BYTES:
        return [(entry.offset, entry.size)]
    room = entry.size - SPOT_BYTES
    return [(entry.offset + room * (2 * index + 1) // (2 * count), SPOT_BYTES) for index in range(count)]
