"""Compiles every kernel configuration that service launches for every supported GPU, without one, and keeps their footprints.

    python -m octavo_kernels.gpu.aot            print registers, shared memory and stack of each case
    python -m octavo_kernels.gpu.aot --check    compare them with footprints.json: exit code 1 where one is worse or missing
    python -m octavo_kernels.gpu.aot --write    make them the new footprints.json

Triton's own cache keeps what was compiled, so only what changed is compiled again. Triton kernels have no arrays: stack bytes are
registers spilt to memory. Not for a process with TRITON_INTERPRET: an interpreted function cannot be compiled. The figures are the
compiler's own and exact for one version of triton; `--check` refuses another.
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import importlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from octavo_kernels.gpu.aot_case import AotCase

MODULES = (
    "decode_attention",
    "kv_write",
    "matmul",
    "merge_parts",
    "page_importance",
    "pages",
    "prefill_attention",
    "rms_norm",
    "rope",
    "sampling",
    "silu_mul",
)
TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
TABLE = Path(__file__).with_name("footprints.json")


@dataclasses.dataclass(frozen=True)
class Footprint:
    """Registers of a thread, shared memory of a program, stack of a thread (what was spilt)."""

    registers: int
    shared_bytes: int
    stack_bytes: int


Footprints = dict[str, dict[str, Footprint]]  # by target, then by the case's name


@functools.cache
def all_cases() -> list[AotCase]:
    cases: list[AotCase] = []
    for module in MODULES:
        cases += importlib.import_module(f"octavo_kernels.gpu.{module}").aot_cases()
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), f"two cases of one name: {sorted(names)}"
    return cases


def all_footprints() -> Footprints:
    """In a process a core. Forked: each inherits torch and triton, whose imports take seconds."""
    wanted = [(target, index) for target in TARGETS for index in range(len(all_cases()))]
    now: Footprints = {target: {} for target in TARGETS}
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=context) as pool:
        for (target, index), found in zip(wanted, pool.map(_footprint_of, wanted), strict=True):
            now[target][all_cases()[index].name] = found
    return now


def _footprint_of(wanted: tuple[str, int]) -> Footprint:
    target, index = wanted
    return footprint(all_cases()[index], TARGETS[target])


def footprint(case: AotCase, target: GPUTarget) -> Footprint:
    """Compile the case, or take it from triton's cache. Raises what triton raises where it cannot be compiled."""
    names = case.kernel.arg_names
    missing = [name for name in names if name not in case.signature and name not in case.constexprs]
    assert not missing, f"{case.name}: no type or value for {missing}"
    # Tensors are aligned to 16 bytes, as a launch finds them.
    aligned = {
        (names.index(name),): [["tt.divisibility", 16]] for name, kind in case.signature.items() if kind.startswith("*")
    }
    signature = {name: case.signature.get(name, "constexpr") for name in names}
    source = ASTSource(case.kernel, signature, constexprs=dict(case.constexprs), attrs=aligned)
    options = {name: getattr(case, name) for name in ("num_warps", "num_stages", "enable_fp_fusion")}
    compiled = triton.compile(source, target=target, options=options)
    if target.backend == "hip":
        return _of_amdgcn(compiled.asm["amdgcn"], compiled.metadata.shared)
    return _of_cubin(compiled.asm["cubin"], compiled.metadata.shared)


def _of_cubin(cubin: bytes, shared_bytes: int) -> Footprint:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        usage = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Footprint(_number(r"\bREG:(\d+)", usage), shared_bytes, _number(r"\bSTACK:(\d+)", usage))


def _of_amdgcn(assembly: str, shared_bytes: int) -> Footprint:
    registers = _number(r"\.vgpr_count:\s+(\d+)", assembly)
    return Footprint(registers, shared_bytes, _number(r"\.private_segment_fixed_size:\s+(\d+)", assembly))


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found is not None, f"no {pattern} in the compiler's output"
    return int(found[1])


def regressions(before: Footprints, now: Footprints) -> list[str]:
    """A sentence for each figure that is larger than in the table, and for each case that the table lacks or has in vain."""
    found = []
    for target, cases in now.items():
        known = before.get(target, {})
        found += [f"{target}: {name}: in the table, but no longer a case" for name in known.keys() - cases.keys()]
        for name, new in cases.items():
            if name not in known:
                found.append(f"{target}: {name}: not in the table")
                continue
            old, new_figures = dataclasses.asdict(known[name]), dataclasses.asdict(new)
            found += [
                f"{target}: {name}: {key} {old[key]} → {new_figures[key]}" for key in old if new_figures[key] > old[key]
            ]
    return sorted(found)


def read_table() -> tuple[str, Footprints]:
    """The triton version that compiled the table, and the table."""
    stored = json.loads(TABLE.read_text(encoding="utf-8"))
    table = {
        target: {name: Footprint(**figures) for name, figures in cases.items()}
        for target, cases in stored["footprints"].items()
    }
    return stored["triton"], table


def write_table(now: Footprints) -> None:
    plain = {target: {name: dataclasses.asdict(cases[name]) for name in sorted(cases)} for target, cases in now.items()}
    TABLE.write_text(json.dumps({"triton": triton.__version__, "footprints": plain}, indent=1) + "\n", encoding="utf-8")


def print_table(now: Footprints) -> None:
    """A row a case: registers / shared bytes / stack bytes by target."""
    width = max(len(name) for cases in now.values() for name in cases)
    print(f"{'registers / shared / stack':<{width}}", *(f"{target:>18}" for target in now))
    for name in next(iter(now.values())):
        cells = (cases[name] for cases in now.values())
        print(f"{name:<{width}}", *(f"{c.registers:>6} /{c.shared_bytes:>7} /{c.stack_bytes:>2}" for c in cells))


def main() -> int:
    parser = argparse.ArgumentParser(prog="octavo_kernels.gpu.aot", description=(__doc__ or "").partition("\n")[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="fail where a figure is worse than in footprints.json")
    mode.add_argument("--write", action="store_true", help="renew footprints.json")
    options = parser.parse_args()
    started = time.monotonic()
    now = all_footprints()
    print_table(now)
    print(
        f"{len(all_cases())} cases, {len(TARGETS)} targets, triton {triton.__version__}, {time.monotonic() - started:.1f} s"
    )
    if options.write:
        write_table(now)
    return _check(now) if options.check else 0


def _check(now: Footprints) -> int:
    version, table = read_table()
    worse = regressions(table, now)
    if version != triton.__version__:
        worse = [f"the table is of triton {version}, this is {triton.__version__}"]
    for sentence in worse:
        print(sentence, file=sys.stderr)
    if worse:
        print("renew the table where that is intended: python -m octavo_kernels.gpu.aot --write", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
