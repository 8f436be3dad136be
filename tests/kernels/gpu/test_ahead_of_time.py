"""Every kernel configuration compiles for every supported GPU, without one, and none needs more than its row in the table says."""

import os
import subprocess
import sys

import pytest

from octavo_kernels.gpu.aot import Footprint, Footprints, all_cases, regressions
from tests.kernels.gpu.conftest import VARIABLE


def test_no_case_needs_more_than_the_table_says() -> None:
    # Another process: here triton interprets, and an interpreted function cannot be compiled.
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    command = [sys.executable, "-m", "octavo_kernels.gpu.aot", "--check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_case_is_launched_with_all_its_arguments() -> None:
    for case in all_cases():
        names = case.kernel.arg_names
        assert sorted([*case.signature, *case.constexprs]) == sorted(names), case.name


KNOWN: Footprints = {"sm_90": {"norm": Footprint(32, 64, 0), "rope": Footprint(40, 0, 0)}}


@pytest.mark.parametrize(
    ("norm", "sentences"),
    [
        pytest.param(Footprint(32, 64, 0), [], id="equal"),
        pytest.param(Footprint(30, 0, 0), [], id="better"),
        pytest.param(Footprint(33, 64, 0), ["sm_90: norm: registers 32 → 33"], id="a register more"),
        pytest.param(
            Footprint(24, 96, 8),
            ["sm_90: norm: shared_bytes 64 → 96", "sm_90: norm: stack_bytes 0 → 8"],
            id="fewer registers, but more shared memory and a spill",
        ),
    ],
)
def test_a_larger_figure_is_named(norm: Footprint, sentences: list[str]) -> None:
    assert regressions(KNOWN, {"sm_90": {**KNOWN["sm_90"], "norm": norm}}) == sentences


def test_a_case_only_here_or_only_in_the_table_is_named() -> None:
    now = {"sm_90": {"norm": KNOWN["sm_90"]["norm"], "gate": Footprint(1, 1, 0)}}
    assert regressions(KNOWN, now) == [
        "sm_90: gate: not in the table",
        "sm_90: rope: in the table, but no longer a case",
    ]
