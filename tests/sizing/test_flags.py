"""What of a command line counts, and amounts of memory in it."""

import re

import pytest

from octavo_sizing.amounts import bytes_text, parse_bytes
from octavo_sizing.errors import SizingError
from octavo_sizing.flags import with_flags
from octavo_sizing.setup import Setup

GIB = 1 << 30


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param([], Setup(), id="none"),
        pytest.param(["serve", "/models/x", "--port=8000"], Setup(), id="others"),
        pytest.param(["--max-model-len=4096"], Setup(max_model_len=4096), id="with an equals sign"),
        pytest.param(["--max-model-len", "4096"], Setup(max_model_len=4096), id="as two words"),
        pytest.param(["--max-num-seqs=8", "--max-num-seqs=9"], Setup(max_num_seqs=9), id="the last one counts"),
        pytest.param(["--kv-cache-memory=2Gi"], Setup(kv_bytes=2 * GIB), id="an amount"),
        pytest.param(["--kv-tier-memory=1Gi"], Setup(tier_bytes=GIB), id="a tier"),
        pytest.param(["--kv-cache-dtype=int8"], Setup(keys="int8", values="int8"), id="keys and values"),
        pytest.param(["--kv-cache-dtype-v=fp8"], Setup(values="fp8"), id="values alone"),
        pytest.param(
            ["--kv-cache-dtype-v=bfloat16", "--kv-cache-dtype=fp8"], Setup(keys="fp8", values="dense"), id="both apart"
        ),
        pytest.param(["--dtype=auto", "--block-size=auto", "--kv-cache-dtype=auto"], Setup(), id="automatic ones"),
        pytest.param(
            ["--dtype=float32", "--block-size=64"], Setup(dtype="float32", page_tokens=64), id="type and page"
        ),
        pytest.param(["--allow-lossy"], Setup(lossy=True), id="a switch"),
        pytest.param(["--allow-lossy", "--no-memory-ladder"], Setup(), id="no ladder, nothing lossy"),
        pytest.param(["--tensor-parallel-size=8", "--nodes=2"], Setup(tensor=8, nodes=2), id="ranks"),
        pytest.param(["--gpu-memory-percent=80"], Setup(memory_percent=80), id="a share of the GPU"),
    ],
)
def test_what_a_command_line_says_about_memory(arguments: list[str], expected: Setup) -> None:
    assert with_flags(Setup(), arguments) == expected


@pytest.mark.parametrize(
    "argument", ["--max-model-len=many", "--kv-cache-memory=lots", "--dtype=int4", "--block-size="]
)
def test_a_value_that_cannot_be_read_is_named(argument: str) -> None:
    with pytest.raises(SizingError, match=f"{argument.partition('=')[0]}: '"):
        with_flags(Setup(), [argument])


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512Mi", 512 << 20),
        ("2GiB", 2 * GIB),
        ("1.5G", 1_500_000_000),
        ("1000000", 1_000_000),
        ("80 Gi", None),
        ("", None),
    ],
)
def test_amounts_of_memory(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(SizingError, match=re.escape(f"'{text}' is not an amount of memory")):
            parse_bytes(text)
    else:
        assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (131072, "128 KiB"), (16_060_522_496, "14.96 GiB"), (-GIB, "−1 GiB")],
)
def test_amounts_are_shown_in_the_largest_unit(size: int, text: str) -> None:
    assert bytes_text(size) == text
