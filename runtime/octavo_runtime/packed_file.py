"""A file of weights as the kernels take them, mapped by every start after the first. Torch-free: `octavo preload` maps it too.

    8 bytes "OCTAVOPW" · header's length, u32 · its crc32, u32 · header, JSON · zeros up to a page
    the parts, each at a cache line · a crc32 of every 16 MiB of them, u32 each

The header has the key that the weights were packed for, and each part's name, shape and place. A file appears whole, by a rename;
whatever is wrong with one is a reason to pack anew, never to fail. It is written in large pieces and its mapping asks for huge
pages: kernels that keep files in large folios then map it by 2 MiB, as fast to walk through as memory of one's own.
"""

import array
import concurrent.futures
import contextlib
import dataclasses
import fcntl
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

SUFFIX = ".packed"
Key = dict[str, str]

_MAGIC = b"OCTAVOPW"
_LENGTHS = struct.Struct("<II")
_ALIGNMENT = 64
_PIECE_BYTES = 16 << 20
_CHECKING_THREADS = 2  # zlib leaves the interpreter to other threads; one checks 2.4 GB/s


class PackedFileError(ValueError):
    """The file cannot be used; the text says why."""


class OtherWriterError(Exception):
    """Another process is writing the same file."""


class Part(msgspec.Struct, frozen=True):
    """One packed weight `[n, k]`: `size_bytes` at `offset`, from the file's begin."""

    name: str
    n: int
    k: int
    offset: int
    size_bytes: int


class _Header(msgspec.Struct, frozen=True):
    key: dict[str, str]
    parts: list[Part]


@dataclasses.dataclass(frozen=True, eq=False)
class PackedFile:
    """An open file: `memory` is mapped shared and read-only."""

    path: Path
    parts: dict[str, Part]
    memory: mmap.mmap
    begin: int  # of the parts
    end: int

    def verify(self, moved: Callable[[], None] = lambda: None) -> None:
        """Read all of it; `moved` is called now and then, as a slow disk may take minutes. Raises PackedFileError where it is not
        what was written.
        """
        with memoryview(self.memory) as content:
            pieces = [
                content[at : min(at + _PIECE_BYTES, self.end)] for at in range(self.begin, self.end, _PIECE_BYTES)
            ]
            with concurrent.futures.ThreadPoolExecutor(_CHECKING_THREADS) as pool:
                found = array.array("I")
                for checksum in pool.map(zlib.crc32, pieces):
                    found.append(checksum)
                    moved()
            for piece in pieces:
                piece.release()
        if found.tobytes() != self.memory[self.end :]:
            raise PackedFileError("its checksum is wrong")


def open_packed(path: Path, key: Key) -> PackedFile:
    """Map the file if it was written for `key`. Raises PackedFileError; what the parts hold is looked at by `verify`."""
    try:
        with path.open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    except FileNotFoundError as error:
        raise PackedFileError("there is no file yet") from error
    except (OSError, ValueError) as error:  # ValueError: empty
        raise PackedFileError(f"it cannot be mapped ({error})") from error
    with contextlib.suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    header, begin = _header(memory)
    found = header.key
    other = [name for name in {**found, **key} if found.get(name) != key.get(name)]
    if other:
        raise PackedFileError(f"it is for another {' and '.join(other)}")
    end = max((part.offset + _aligned(part.size_bytes) for part in header.parts), default=begin)
    if end + 4 * -(-(end - begin) // _PIECE_BYTES) != len(memory):
        raise PackedFileError("it is cut short")
    return PackedFile(path, {part.name: part for part in header.parts}, memory, begin, end)


def write_packed(path: Path, key: Key, weights: Mapping[str, tuple[int, int, memoryview]]) -> int:
    """Write name → (n, k, bytes) as `path`, whole or not at all; → the file's size. Raises OSError and OtherWriterError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _sole_writer(path):
        temporary = path.with_suffix(".new")
        try:
            size_bytes = _write(temporary, key, weights)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    return size_bytes


def _write(path: Path, key: Key, weights: Mapping[str, tuple[int, int, memoryview]]) -> int:
    checksums = array.array("I")
    with path.open("wb") as file:
        file.write(_encoded(key, weights))
        for piece in _pieces(content for _, _, content in weights.values()):
            checksums.append(zlib.crc32(piece))
            file.write(piece)
        file.write(checksums.tobytes())
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def _pieces(contents: Iterable[memoryview]) -> Iterator[bytearray]:
    """All of them in pieces of one size, each content beginning at a cache line."""
    piece = bytearray()
    for content in contents:
        padding = bytes(_aligned(len(content)) - len(content))
        for source in (content, memoryview(padding)):
            at = 0
            while at < len(source):
                taken = source[at : at + _PIECE_BYTES - len(piece)]
                piece += taken
                at += len(taken)
                if len(piece) == _PIECE_BYTES:
                    yield piece
                    piece = bytearray()
    if piece:
        yield piece


def _encoded(key: Key, weights: Mapping[str, tuple[int, int, memoryview]]) -> bytes:
    """Padded to whole pages; offsets count from the file's begin, so they depend on the header's own length."""
    begin, ahead = -1, 0
    while ahead != begin:
        begin, at, parts = ahead, ahead, []
        for name, (n, k, content) in weights.items():
            parts.append(Part(name, n, k, at, len(content)))
            at += _aligned(len(content))
        text = msgspec.json.encode(_Header(key, parts))
        ahead = _in_pages(len(_MAGIC) + _LENGTHS.size + len(text))
    return (_MAGIC + _LENGTHS.pack(len(text), zlib.crc32(text)) + text).ljust(begin, b"\0")


def _header(memory: mmap.mmap) -> tuple[_Header, int]:
    """The header, and where the parts begin. Raises PackedFileError."""
    fixed = len(_MAGIC) + _LENGTHS.size
    if len(memory) < fixed or memory[: len(_MAGIC)] != _MAGIC:
        raise PackedFileError("it is no file of packed weights")
    length, checksum = _LENGTHS.unpack_from(memory, len(_MAGIC))
    text = memory[fixed : fixed + length]
    if zlib.crc32(text) != checksum:
        raise PackedFileError("its header is damaged")
    try:
        return msgspec.json.decode(text, type=_Header), _in_pages(fixed + length)
    except msgspec.MsgspecError as error:
        raise PackedFileError(f"its header is another version's ({error})") from error


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT


def _in_pages(size_bytes: int) -> int:
    return -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE


@contextlib.contextmanager
def _sole_writer(path: Path) -> Iterator[None]:
    """Raises OtherWriterError. The lock goes with its process, so what a killed one left is written over."""
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise OtherWriterError from error
    finally:
        os.close(descriptor)
