"""Compiles the CPU kernels: `python -m octavo_kernels.cpu.build`. The package's build calls it where a compiler is.

One library for each tier, with explicit instruction flags, so that what is built on one machine runs on every other; the tier is
chosen where it runs. The libraries need the C library only: neither torch's nor C++'s interface is in them.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from octavo_kernels.cpu.tier import LIBRARIES, SOURCE, TIERS, Tier

# Products and sums are not fused unless the source says so: the same row would else get other bits where a function is inlined.
_OPTIONS = (
    "-std=c++17",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-exceptions",
    "-fno-rtti",
    "-Wall",
    "-Wextra",
    "-Werror",
)
_LINK = ("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,--no-undefined")


class CompilerError(RuntimeError):
    """There is no compiler, or it failed; the text says which and how to go on."""


def compiler() -> str | None:
    """$CXX, or the first of g++, clang++ and c++ that is there."""
    named = os.environ.get("CXX")
    candidates = [named] if named else ["g++", "clang++", "c++"]
    return next((found for name in candidates if (found := shutil.which(name))), None)


def build(folder: Path = LIBRARIES, tiers: tuple[Tier, ...] = TIERS, extra: tuple[str, ...] = ()) -> list[Path]:
    """Compile what the source or the options changed since it was compiled, at once; the libraries. Raises CompilerError.

    What is current needs no compiler: an image takes over what was compiled where it is built.
    """
    options = {folder / tier.library.name: (*_options(tier), *extra) for tier in tiers}
    stale = {target: each for target, each in options.items() if not _is_current(target, each)}
    program = compiler()
    if stale and program is None:
        raise CompilerError("no C++ compiler: install g++ (or name one in $CXX)")
    folder.mkdir(parents=True, exist_ok=True)
    commands = {target: [str(program), *each, str(SOURCE), "-o", str(_part(target))] for target, each in stale.items()}
    running = {target: subprocess.Popen(each, stderr=subprocess.PIPE, text=True) for target, each in commands.items()}
    for target, process in running.items():
        _, errors = process.communicate()
        if process.returncode:
            raise CompilerError(f"{' '.join(commands[target])} failed:\n{errors}")
        _part(target).replace(target)
        _stamp(target).write_text(_key(stale[target]))
    return list(options)


def _options(tier: Tier) -> tuple[str, ...]:
    return (*_OPTIONS, *_LINK, *tier.options, f"-DOCTAVO_TIER={tier.number}")


def _part(target: Path) -> Path:
    """Where it is written until it is whole."""
    return target.with_suffix(f".{os.getpid()}.part")


def _stamp(target: Path) -> Path:
    return target.with_suffix(".key")


def _key(options: tuple[str, ...]) -> str:
    return hashlib.sha256(SOURCE.read_bytes() + "\0".join(options).encode()).hexdigest()


def _is_current(target: Path, options: tuple[str, ...]) -> bool:
    stamp = _stamp(target)
    return target.exists() and stamp.exists() and stamp.read_text() == _key(options)


def main() -> int:
    try:
        for path in build():
            print(path)
    except CompilerError as error:
        print(f"octavo_kernels: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
