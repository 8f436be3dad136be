"""The kernels of every tier: that of this CPU as it is installed, and tiers 1 and 2 with their instructions in plain C++."""

import dataclasses
from pathlib import Path

import pytest

from octavo_kernels.cpu import build, tier
from octavo_kernels.cpu.kernels import CpuKernels
from octavo_kernels.cpu.library import best_library, open_library

_HERE = Path(__file__).parent
_FOLDER = _HERE.parents[2] / ".artifacts" / "emulated"
_AVX2 = tier.TIERS[-1]
THREADS = 2


def _emulated(name: str) -> CpuKernels:
    one = next(each for each in tier.TIERS if each.name == name)
    plain = dataclasses.replace(one, options=_AVX2.options)
    options = ("-O2", "-DOCTAVO_EMULATED", f"-I{_HERE}", "-Wno-psabi", "-Wno-ignored-attributes")
    try:
        (path,) = build.build(_FOLDER, (plain,), options)
    except build.CompilerError as error:
        pytest.skip(f"tier {name} cannot be emulated: {error}")
    return CpuKernels(open_library(path, name, THREADS))


@pytest.fixture(scope="session", params=["installed", "avx512_bf16", "amx"])
def kernels(request: pytest.FixtureRequest) -> CpuKernels:
    if not _AVX2.needs <= tier.cpu_flags() or not _AVX2.library.exists():
        pytest.skip("the CPU kernels need AVX2 and, to be compiled, g++")
    return CpuKernels(best_library(THREADS)) if request.param == "installed" else _emulated(request.param)
