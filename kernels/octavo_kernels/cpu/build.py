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

from octavo_kernels.cpu.tier import LIBRARIES, SOURCE, TIERS, Tier, source_hash, source_number

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


def compiler() -> str:
    """$CXX, or the first of g++, clang++ and c++ that is there. Raises CompilerError."""
    named = os.environ.get("CXX")
    found = next(
        (path for name in ([named] if named else ["g++", "clang++", "c++"]) if (path := shutil.which(name))), None
    )
    if found is None:
        raise CompilerError(f"$CXX is '{named}', which is no program" if named else "no C++ compiler: install g++")
    return found


def build(folder: Path = LIBRARIES, tiers: tuple[Tier, ...] = TIERS, extra: tuple[str, ...] = ()) -> list[Path]:
    """Compile what the source or the options changed since it was compiled, at once; the libraries that there are now.

    What is current needs no compiler: an image takes over what was compiled where it is built. A tier that the compiler does not
    know is left out with a warning. Raises CompilerError where no library is left.
    """
    options = {folder / tier.library.name: (*_options(tier), *extra) for tier in tiers}
    stale = {target: each for target, each in options.items() if not _is_current(target, each)}
    program = compiler() if stale else None
    folder.mkdir(parents=True, exist_ok=True)
    commands = {target: [str(program), *each, str(SOURCE), "-o", str(_part(target))] for target, each in stale.items()}
    running = {target: subprocess.Popen(each, stderr=subprocess.PIPE, text=True) for target, each in commands.items()}
    failed = {}
    for target, process in running.items():
        _, errors = process.communicate()
        target.unlink(missing_ok=True)
        if process.returncode:
            _part(target).unlink(missing_ok=True)
            failed[target] = f"{' '.join(commands[target])} failed:\n{errors}"
            continue
        _part(target).replace(target)
        _stamp(target).write_text(_key(target, stale[target]))
    if len(failed) == len(options):
        raise CompilerError("\n".join(failed.values()))
    for target, error in failed.items():
        print(f"octavo_kernels: {target.name} is left out: {error}", file=sys.stderr)
    return [target for target in options if target not in failed]


def _options(tier: Tier) -> tuple[str, ...]:
    return (*_OPTIONS, *_LINK, *tier.options, f"-DOCTAVO_TIER={tier.number}", f"-DOCTAVO_BUILD={source_number()}u")


def _part(target: Path) -> Path:
    """Where it is written until it is whole."""
    return target.with_suffix(f".{os.getpid()}.part")


def _stamp(target: Path) -> Path:
    return target.with_suffix(".key")


def _key(target: Path, options: tuple[str, ...]) -> str:
    """What a library was made of, and how large it became."""
    made_of = hashlib.sha256(source_hash() + "\0".join(options).encode()).hexdigest()
    return f"{made_of} {target.stat().st_size}"


def _is_current(target: Path, options: tuple[str, ...]) -> bool:
    stamp = _stamp(target)
    return target.exists() and stamp.exists() and stamp.read_text() == _key(target, options)


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
