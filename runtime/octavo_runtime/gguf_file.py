"""GGUF files: metadata and where each tensor lies, read from the mapped header.

The `gguf` package's reader takes seconds for a vocabulary of 49k entries (it makes a numpy view of every string); start-up reads
this header in both processes, so it is parsed here with `struct`. Quantised blocks are left to that package (`model/weights.py`).

Source: the GGUF specification, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import dataclasses
import mmap
import struct
from pathlib import Path

Scalar = str | int | float | bool
Value = Scalar | list[Scalar]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


class GgufError(ValueError):
    """The file is not a GGUF file that can be read; the text says why."""


class CutShortError(GgufError):
    """The header goes on beyond what there is of the file."""


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """One tensor: `shape` as torch has it (slowest dimension first), ggml type number, byte offset from the file's begin."""

    shape: tuple[int, ...]
    ggml_type: int
    offset: int


@dataclasses.dataclass(frozen=True)
class GgufHeader:
    metadata: dict[str, Value]
    tensors: dict[str, TensorInfo]

    def text(self, key: str) -> str:
        return str(self._required(key))

    def integer(self, key: str) -> int:
        value = self._required(key)
        if not isinstance(value, int):
            raise GgufError(f"metadata '{key}' is {_shown(value)}, expected a whole number")
        return value

    def number(self, key: str) -> float:
        value = self._required(key)
        if not isinstance(value, int | float):
            raise GgufError(f"metadata '{key}' is {_shown(value)}, expected a number")
        return float(value)

    def strings(self, key: str) -> list[str]:
        value = self._required(key)
        if not isinstance(value, list):
            raise GgufError(f"metadata '{key}' is {_shown(value)}, expected a list")
        return [str(item) for item in value]

    def _required(self, key: str) -> Value:
        if key not in self.metadata:
            raise GgufError(f"the GGUF file has no metadata '{key}'")
        return self.metadata[key]


def _shown(value: Value) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else repr(value)


def is_gguf(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == _MAGIC


def read_header(path: Path) -> GgufHeader:
    """Parse the header of `path`.

    Raises GgufError where the file is no GGUF file, is cut short or of an unknown version, and OSError where it cannot be read.
    """
    with path.open("rb") as file:
        try:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise GgufError(f"{path} is empty") from error
    with memory:
        return parse_header(memory, path)


def parse_header(memory: mmap.mmap | bytes, path: Path) -> GgufHeader:
    """The header that `memory` begins with, of a file that messages call `path`.

    Raises CutShortError where it ends before the header does, and GgufError for what is no header.
    """
    try:
        return _Reader(memory, path).header()
    except (struct.error, IndexError) as error:
        raise CutShortError(f"{path} is cut short or damaged within its header: {error!r}") from error
    except (KeyError, UnicodeDecodeError) as error:
        raise GgufError(f"{path} is cut short or damaged within its header: {error!r}") from error


class _Reader:
    def __init__(self, memory: mmap.mmap | bytes, path: Path) -> None:
        self._memory = memory
        self._path = path
        self._at = 0

    def header(self) -> GgufHeader:
        if self._memory[:4] != _MAGIC:
            raise GgufError(f"{self._path} is not a GGUF file (it begins with {self._memory[:4]!r})")
        self._at = 4
        version = self._scalar("<I")
        if version not in _VERSIONS:
            raise GgufError(f"{self._path} has GGUF version {version}; versions 2 and 3 can be read")
        tensor_count, value_count = int(self._scalar("<Q")), int(self._scalar("<Q"))
        metadata = {self._string(): self._value(int(self._scalar("<I"))) for _ in range(value_count)}
        tensors = dict(self._tensor() for _ in range(tensor_count))
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise GgufError(f"{self._path} has general.alignment {alignment!r}")
        begin = -(-self._at // alignment) * alignment
        return GgufHeader(
            metadata, {name: dataclasses.replace(info, offset=begin + info.offset) for name, info in tensors.items()}
        )

    def _scalar(self, layout: str) -> int | float | bool:
        value: int | float | bool = struct.unpack_from(layout, self._memory, self._at)[0]
        self._at += struct.calcsize(layout)
        return value

    def _string(self) -> str:
        length = int(self._scalar("<Q"))
        begin, self._at = self._at, self._at + length
        if self._at > len(self._memory):
            raise IndexError(f"a string of {length} bytes at {begin}")
        return self._memory[begin : self._at].decode()

    def _value(self, kind: int) -> Value:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        return self._scalar(_SCALARS[kind])

    def _array(self) -> list[Scalar]:
        kind, length = int(self._scalar("<I")), int(self._scalar("<Q"))
        if kind == _STRING:
            return [self._string() for _ in range(length)]
        layout = _SCALARS[kind]
        many = f"<{length}{layout[1]}"
        values = struct.unpack_from(many, self._memory, self._at)
        self._at += struct.calcsize(many)
        return list(values)

    def _tensor(self) -> tuple[str, TensorInfo]:
        name = self._string()
        dimensions = int(self._scalar("<I"))
        shape = tuple(int(self._scalar("<Q")) for _ in range(dimensions))[::-1]
        return name, TensorInfo(shape, int(self._scalar("<I")), int(self._scalar("<Q")))
