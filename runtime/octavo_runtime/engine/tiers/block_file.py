"""A block's checksum and its file: a header, then the page's bytes of all layers.

The header says what the block was made by: the root key of the engine's configuration (weights, layout of keys and values, page
size, RoPE), the rank and the number of ranks, the block's own key. The checksum covers it and the content, so a block that was
torn, changed, renamed, or made by another engine is no block: `read` gives False and the block is computed again.

Files are not synchronised: what a crash leaves of one does not agree with its checksum.
"""

import dataclasses
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.uint8]

_MAGIC = b"octavoKV"
_VERSION = 1
_HEADER = struct.Struct("<8sIIIQ32s32s")  # magic, version, rank, ranks, content bytes, root key, key
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CHECKSUM.size


@dataclasses.dataclass(frozen=True)
class BlockKind:
    """What all blocks of an engine's rank have in common."""

    root: bytes  # 32 bytes
    block_bytes: int  # of a page in all layers
    rank: int = 0
    ranks: int = 1

    @property
    def folder(self) -> str:
        """A name for the folder of such blocks."""
        return f"{self.root[:8].hex()}-{self.rank}of{self.ranks}"

    @property
    def file_bytes(self) -> int:
        return HEADER_BYTES + self.block_bytes

    def header(self, key: bytes) -> bytes:
        return _HEADER.pack(_MAGIC, _VERSION, self.rank, self.ranks, self.block_bytes, self.root, key)

    def checksum(self, key: bytes, content: Row) -> int:
        """CRC-32 of header and content: against torn and decayed blocks, not against whoever may write to the folder."""
        return zlib.crc32(content.data, zlib.crc32(self.header(key)))


def write(path: Path, kind: BlockKind, key: bytes, content: Row, checksum: int) -> None:
    """Under another name first, so that a file with a block's name is whole. Raises OSError, and leaves nothing then."""
    unfinished = path.with_suffix(".tmp")
    try:
        with unfinished.open("wb", buffering=0) as file:
            _write_all(file.fileno(), memoryview(kind.header(key) + _CHECKSUM.pack(checksum)))
            _write_all(file.fileno(), content.data)
        unfinished.rename(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def read(path: Path, kind: BlockKind, key: bytes, content: Row) -> bool:
    """Fill `content` from a block's file; False, whatever is in `content` then, unless it is this block, whole."""
    try:
        with path.open("rb", buffering=0) as file:
            header = file.read(HEADER_BYTES)
            if header[: _HEADER.size] != kind.header(key) or len(header) < HEADER_BYTES:
                return False
            filled = _read_all(file.fileno(), content.data)
        os.utime(path)  # the order of use outlives a restart
    except OSError:
        return False
    (checksum,) = _CHECKSUM.unpack_from(header, _HEADER.size)
    return filled and kind.checksum(key, content) == checksum


def _write_all(descriptor: int, left: memoryview) -> None:
    while left:
        left = left[os.write(descriptor, left) :]


def _read_all(descriptor: int, left: memoryview) -> bool:
    while left:
        count = os.readv(descriptor, [left])
        if count == 0:
            return False
        left = left[count:]
    return True
