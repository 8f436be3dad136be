"""The tiers of instructions that the CPU kernels are compiled for, best first. Imports nothing beside the standard library."""

import dataclasses
import hashlib
from pathlib import Path

SOURCE = Path(__file__).with_name("octavo_cpu.cpp")
_PARTS = (SOURCE, *sorted(SOURCE.parent.glob("*.h")))  # SOURCE and what it includes
LIBRARIES = Path(__file__).with_name("lib")


@dataclasses.dataclass(frozen=True)
class Tier:
    """`needs` are the flags that Linux shows in /proc/cpuinfo where CPU and kernel support the instructions."""

    name: str
    number: int  # OCTAVO_TIER in the source
    needs: frozenset[str]
    options: tuple[str, ...]  # for the compiler

    @property
    def library(self) -> Path:
        return LIBRARIES / f"octavo_cpu_{self.name}.so"


_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512bf16")
_AVX512_NEEDS = frozenset({"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16"})
TIERS = (
    Tier("amx", 2, _AVX512_NEEDS | {"amx_tile", "amx_bf16"}, (*_AVX512, "-mamx-tile", "-mamx-bf16")),
    Tier("avx512_bf16", 1, _AVX512_NEEDS, _AVX512),
    Tier("avx2", 0, frozenset({"avx2", "fma", "f16c"}), _AVX2),
)


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """What the first CPU can do, by Linux's names; nothing where that cannot be read or is no x86."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), frozenset())


def source_hash() -> bytes:
    """sha256 of all that is compiled."""
    return hashlib.sha256(b"".join(part.read_bytes() for part in _PARTS)).digest()


def source_number() -> int:
    """32 bits of the source's hash: compiled into the libraries, so that one of another source is not called."""
    return int.from_bytes(source_hash()[:4], "big")


def supported(flags: frozenset[str]) -> list[Tier]:
    return [tier for tier in TIERS if tier.needs <= flags]
