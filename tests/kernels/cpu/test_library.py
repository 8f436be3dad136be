"""What is compiled when, and which libraries are refused."""

import shutil
from pathlib import Path

import pytest

from octavo_kernels.cpu import build, library, tier
from octavo_kernels.cpu.library import UnavailableError, best_library, open_library

AVX2 = tier.TIERS[-1]


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """A copy of the library of this CPU."""
    if not AVX2.needs <= tier.cpu_flags() or not AVX2.library.exists():
        pytest.skip("the CPU kernels need AVX2 and, to be compiled, g++")
    return Path(shutil.copy(AVX2.library, tmp_path))


@pytest.mark.parametrize("content", [b"", b"\x7fELF no more than this"], ids=["empty", "cut"])
def test_a_file_that_is_no_library_is_refused_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "octavo_cpu_avx2.so"
    file.write_bytes(content)
    with pytest.raises(
        UnavailableError, match=r"is no library of the kernels .*run `python -m octavo_kernels.cpu.build`"
    ):
        open_library(file, "avx2", threads=1)


def test_a_library_of_another_source_is_refused(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "source_number", lambda: 1)
    with pytest.raises(
        UnavailableError, match=r"was compiled from another source: run `python -m octavo_kernels.cpu.build`"
    ):
        open_library(compiled, "avx2", threads=1)


def test_a_cpu_without_avx2_is_told() -> None:
    with pytest.raises(UnavailableError, match="this CPU has no AVX2"):
        best_library(threads=1, flags=frozenset({"sse2"}))


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({"avx2", "fma", "f16c"}, ["avx2"]),
        (tier.TIERS[1].needs, ["avx512_bf16", "avx2"]),
        (tier.TIERS[0].needs, ["amx", "avx512_bf16", "avx2"]),
    ],
    ids=["avx2", "avx512", "amx"],
)
def test_the_best_tier_comes_first(flags: frozenset[str], names: list[str]) -> None:
    assert [one.name for one in tier.supported(frozenset(flags))] == names


def test_flags_are_those_of_the_first_cpu(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nflags\t\t: fpu avx2 fma\n\nprocessor\t: 1\nflags\t\t: fpu\n")
    assert tier.cpu_flags(file) == {"fpu", "avx2", "fma"}
    assert tier.cpu_flags(tmp_path / "absent") == frozenset()


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that writes its last argument's file, and knows no AMX."""
    program = tmp_path / "cxx"
    program.write_text(
        '#!/bin/sh\ncase "$*" in *amx*) echo "unknown option" >&2; exit 1;; esac\n'
        f'echo compiled >>{tmp_path}/log\nfor last; do :; done\necho library >"$last"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    return program


def test_a_tier_that_the_compiler_does_not_know_is_left_out(
    compiler: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = build.build(tmp_path / "lib")
    assert [path.name for path in built] == ["octavo_cpu_avx512_bf16.so", "octavo_cpu_avx2.so"]
    assert sorted(path.name for path in (tmp_path / "lib").glob("*.part")) == []
    assert "octavo_cpu_amx.so is left out" in capsys.readouterr().err


def test_only_what_changed_or_was_cut_is_compiled_again(compiler: Path, tmp_path: Path) -> None:
    def compiled() -> int:
        return len((tmp_path / "log").read_text().splitlines())

    (path,) = build.build(tmp_path / "lib", (AVX2,))
    assert build.build(tmp_path / "lib", (AVX2,)) == [path]
    assert compiled() == 1
    path.write_bytes(b"cut")
    build.build(tmp_path / "lib", (AVX2,))
    build.build(tmp_path / "lib", (AVX2,), ("-DOTHER",))
    assert compiled() == 3


def test_without_a_compiler_only_what_is_current_is_there(
    compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = build.build(tmp_path / "lib", (AVX2,))
    monkeypatch.setenv("CXX", "/nonexistent")
    assert build.build(tmp_path / "lib", (AVX2,)) == [path]
    with pytest.raises(build.CompilerError, match=r"\$CXX is '/nonexistent', which is no program"):
        build.build(tmp_path / "other", (AVX2,))
