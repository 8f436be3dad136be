"""What the package's build does where the CPU kernels cannot be compiled: a checkout goes on, an image does not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from octavo_kernels.cpu import tier

ROOT = Path(__file__).parents[3]
PARTS = ("pyproject.toml", "README.md", "LICENSE", "runtime/octavo_runtime/__init__.py")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the build reads of a checkout, in which nothing is compiled."""
    for part in PARTS:
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / part, tmp_path / part)
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("lib", "__pycache__"))
    return tmp_path


def compiler(folder: Path, refused: str) -> Path:
    """One that compiles nothing and refuses options with `refused` in them."""
    program = folder / "cxx"
    program.write_text(f'#!/bin/sh\ncase "$*" in *{refused}*) exit 1;; esac\nfor last; do :; done\necho >"$last"\n')
    program.chmod(0o755)
    return program


def build(checkout: Path, cxx: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", "out"]
    settings = {**os.environ, "CXX": str(cxx), **environment}
    return subprocess.run(command, cwd=checkout, env=settings, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the CPU kernels are for x86_64")
@pytest.mark.parametrize(
    ("refused", "says"),
    [
        pytest.param("-O3", "the CPU kernels are not built", id="all of them"),
        pytest.param("amx-tile", f"{tier.TIERS[0].library.name}: not built", id="one tier"),
    ],
)
def test_kernels_that_are_required_and_do_not_compile_end_the_build(checkout: Path, refused: str, says: str) -> None:
    cxx = compiler(checkout, refused)
    ended = build(checkout, cxx, OCTAVO_REQUIRE_CPU_KERNELS="1")
    assert ended.returncode != 0
    assert says in ended.stderr
    assert "run `make setup` where g++ is 12 or newer" in ended.stderr
    went_on = build(checkout, cxx)
    assert (went_on.returncode, len(list((checkout / "out").glob("*.whl")))) == (0, 1), went_on.stderr


def test_images_require_them() -> None:
    assert "RUN OCTAVO_REQUIRE_CPU_KERNELS=1 /opt/tools/bin/hatchling build" in (ROOT / "Dockerfile").read_text()
