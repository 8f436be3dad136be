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
        pytest.param(["--kv-tier-memory=1Gi"], Setup(tier_bytes=GIB, tiers=True), id="a tier"),
        pytest.param(["--kv-tier-disk=/cache"], Setup(tiers=True), id="a tier on disk"),
        pytest.param(["--kv-overflow-memory=1Gi"], Setup(overflow_bytes=GIB), id="an overflow"),
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
        pytest.param(["--tensor-parallel-size=8", "--nodes=2"], Setup(tensor=8, nodes=2), id="ranks"),
        pytest.param(["--gpu-memory-percent=80"], Setup(memory_percent=80), id="a share of the GPU"),
    ],
)
def test_what_a_command_line_says_about_memory(arguments: list[str], expected: Setup) -> None:
    assert with_flags(Setup(), arguments) == expected


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("--max-model-len=many", "'many' is not a whole number of at least 1"),
        ("--max-num-seqs=0", "'0' is not a whole number of at least 1"),
        ("--max-num-batched-tokens=-1", "'-1' is not a whole number of at least 1"),
        ("--nodes=0", "'0' is not a whole number of at least 1"),
        ("--tensor-parallel-size=x", "'x' is not a whole number of at least 1"),
        ("--gpu-memory-percent=0", "'0' is not a percentage: give a whole number from 1 to 100"),
        ("--gpu-memory-percent=101", "'101' is not a percentage: give a whole number from 1 to 100"),
        (
            "--kv-cache-memory=lots",
            "'lots' is not an amount of memory: write bytes or a number with k, M, G, T, Ki, Mi",
        ),
        ("--kv-cache-dtype=int4", "'int4' is not one of auto, bfloat16, int8, fp8"),
        ("--dtype=int4", "'int4' is not one of auto, bfloat16, float32"),
        ("--block-size=17", "'17' is not one of auto, 16, 32, 64, 128"),
        ("--block-size=", "'' is not one of auto, 16, 32, 64, 128"),
    ],
)
def test_a_value_that_cannot_be_is_named(argument: str, says: str) -> None:
    with pytest.raises(SizingError, match=f"^{argument.partition('=')[0]}: {says}"):
        with_flags(Setup(), [argument])


def test_every_sequence_needs_a_token_of_a_step() -> None:
    says = "--max-num-batched-tokens 512 is less than --max-num-seqs 513: .* raise the first or lower the second"
    with pytest.raises(SizingError, match=says):
        with_flags(Setup(), ["--max-num-seqs=513"])
    assert with_flags(Setup(), ["--max-num-seqs=513", "--max-num-batched-tokens=513"]).max_num_seqs == 513
    assert with_flags(Setup(), ["--max-num-batched-tokens=8"]).max_num_batched_tokens == 8


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
