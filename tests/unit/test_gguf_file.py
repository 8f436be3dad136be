"""GGUF headers: what the `gguf` package writes is read; what is cut or damaged is refused, always as GgufError and soon."""

import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo_runtime.gguf_file import GgufError, GgufHeader, TensorInfo, Value, is_gguf, read_header

SCALARS: dict[str, Value] = {
    "u8": 200,
    "i8": -7,
    "u16": 60_000,
    "i16": -30_000,
    "u32": 4_000_000_000,
    "i32": -2_000_000_000,
    "f32": 0.5,
    "bool": True,
    "text": "héllo",
    "u64": 2**64 - 1,
    "i64": -(2**63),
    "f64": 1e300,
}
ARRAYS: dict[str, Value] = {"texts": ["a", "", "ü"], "ints": [1, -2, 3], "floats": [0.5, -1.5]}


def write(path: Path, alignment: int | None = None) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    for name in ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "u64", "i64", "f64"):
        kind = {"u": "uint", "i": "int", "f": "float"}[name[0]] + name[1:]
        getattr(writer, f"add_{kind}")(name, SCALARS[name])
    writer.add_bool("bool", True)
    writer.add_string("text", "héllo")
    for name, items in ARRAYS.items():
        writer.add_array(name, items)
    writer.add_tensor("matrix", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("vector", np.arange(5, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("gguf") / "model.gguf")


@pytest.fixture(scope="module")
def whole(file: Path) -> bytes:
    return file.read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "model.gguf"


def test_reads_every_kind_of_value(file: Path) -> None:
    metadata = read_header(file).metadata
    assert {name: metadata[name] for name in SCALARS | ARRAYS} == SCALARS | ARRAYS
    assert metadata["bool"] is True


@pytest.mark.parametrize("alignment", [None, 8, 128], ids=["default alignment", "8", "128"])
def test_finds_the_tensors(tmp_path: Path, alignment: int | None) -> None:
    file = write(tmp_path / "model.gguf", alignment)
    tensors, data = read_header(file).tensors, file.read_bytes()
    assert {name: (info.shape, info.ggml_type) for name, info in tensors.items()} == {
        "matrix": ((2, 3), int(gguf.GGMLQuantizationType.F32)),
        "vector": ((5,), int(gguf.GGMLQuantizationType.F16)),
    }
    assert all(info.offset % (alignment or 32) == 0 for info in tensors.values())
    matrix, vector = (tensors[name].offset for name in ("matrix", "vector"))
    np.testing.assert_array_equal(np.frombuffer(data, np.float32, count=6, offset=matrix), np.arange(6))
    np.testing.assert_array_equal(np.frombuffer(data, np.float16, count=5, offset=vector), np.arange(5))


HEADER = GgufHeader(
    {"one": 1, "half": 0.5, "word": "x", "list": ["a", "b"], "yes": True}, {"t": TensorInfo((1,), 0, 0)}
)


def test_values_by_their_type() -> None:
    assert (HEADER.integer("one"), HEADER.number("one"), HEADER.number("half")) == (1, 1.0, 0.5)
    assert (HEADER.text("word"), HEADER.strings("list")) == ("x", ["a", "b"])


@pytest.mark.parametrize(
    ("method", "key", "text"),
    [
        ("integer", "absent", "no metadata 'absent'"),
        ("text", "absent", "no metadata 'absent'"),
        ("strings", "absent", "no metadata 'absent'"),
        ("integer", "word", "'word' is 'x', expected a whole number"),
        ("integer", "half", "'half' is 0.5, expected a whole number"),
        ("integer", "list", "'list' is a list of 2, expected a whole number"),
        ("number", "word", "'word' is 'x', expected a number"),
        ("number", "list", "'list' is a list of 2, expected a number"),
        ("strings", "one", "'one' is 1, expected a list"),
    ],
)
def test_a_value_of_another_type_is_named(method: str, key: str, text: str) -> None:
    with pytest.raises(GgufError, match=text):
        getattr(HEADER, method)(key)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"PK\x03\x04 and more", r"is not a GGUF file \(it begins with b'PK", id="other file"),
        pytest.param(b"GG", "is not a GGUF file", id="cut in the first word"),
        pytest.param(b"GGUF\x03\x00", "is cut short or damaged", id="cut in the version"),
        pytest.param(
            b"GGUF" + struct.pack("<I", 1) + bytes(16), "has GGUF version 1; versions 2 and 3", id="old version"
        ),
        pytest.param(b"GGUF" + struct.pack(">I", 3) + bytes(16), "has GGUF version 50331648", id="other byte order"),
    ],
)
def test_what_is_no_gguf_file_is_refused(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "model.gguf").write_bytes(data)
    with pytest.raises(GgufError, match=rf"model\.gguf {text}"):
        read_header(tmp_path / "model.gguf")


def entry(kind: int, value: bytes, key: bytes = b"k") -> bytes:
    """A file of one metadata entry and no tensor."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + value


@pytest.mark.parametrize("count", [10**6, 2**32, 2**40, 2**63, 2**64 - 1])
@pytest.mark.parametrize(
    "form",
    [
        pytest.param(lambda count: b"GGUF" + struct.pack("<IQQ", 3, 0, count), id="entries"),
        pytest.param(lambda count: b"GGUF" + struct.pack("<IQQ", 3, count, 0), id="tensors"),
        pytest.param(lambda count: entry(8, struct.pack("<Q", count)), id="text"),
        pytest.param(lambda count: entry(9, struct.pack("<IQ", 8, count)), id="array of texts"),
        pytest.param(lambda count: entry(9, struct.pack("<IQ", 0, count)), id="array of bytes"),
        pytest.param(lambda count: entry(9, struct.pack("<IQ", 12, count)), id="array of doubles"),
    ],
)
def test_absurd_lengths_are_refused(tmp_path: Path, form: Callable[[int], bytes], count: int) -> None:
    (tmp_path / "model.gguf").write_bytes(form(count))
    with pytest.raises(GgufError, match="cut short or damaged"):
        read_header(tmp_path / "model.gguf")


def test_an_alignment_of_zero_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(entry(4, struct.pack("<I", 0), key=b"general.alignment"))
    with pytest.raises(GgufError, match=r"general\.alignment 0"):
        read_header(tmp_path / "model.gguf")


DAMAGE = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@DAMAGE
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_header_cut_anywhere_is_refused(whole: bytes, scratch: Path, share: float) -> None:
    header_bytes = whole.index(b"vector") + len("vector") + 4 + 8 + 4 + 8
    scratch.write_bytes(whole[: int(share * header_bytes)])
    with pytest.raises(GgufError):
        read_header(scratch)


@DAMAGE
@given(
    share=st.floats(0, 1, exclude_max=True),
    damage=st.one_of(
        st.binary(min_size=1, max_size=12),
        st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**62, 2**64 - 1]).map(lambda number: struct.pack("<Q", number)),
    ),
)
def test_a_damaged_header_is_read_or_refused_but_nothing_else(
    whole: bytes, scratch: Path, share: float, damage: bytes
) -> None:
    at = int(share * len(whole))
    scratch.write_bytes(whole[:at] + damage + whole[at + len(damage) :])
    try:
        header = read_header(scratch)
    except GgufError:
        return
    assert all(isinstance(info.offset, int) and info.offset >= 0 for info in header.tensors.values())


def test_is_gguf_goes_by_content(file: Path, tmp_path: Path) -> None:
    (tmp_path / "short.gguf").write_bytes(b"GG")
    (tmp_path / "other.gguf").write_bytes(b"\x89PNG")
    assert is_gguf(file)
    assert not any(is_gguf(tmp_path / name) for name in ("short.gguf", "other.gguf", "absent.gguf", "."))
