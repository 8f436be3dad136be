"""`triton_cases.py` in a process of its own: interpreted on the CPU, and marked `gpu` as it is served."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

_TIMEOUT_S = 600


def run_cases(**environment: str) -> None:
    cases = Path(__file__).with_name("triton_cases.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(cases)]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_kernels_interpreted_give_the_references_answers() -> None:
    run_cases(TRITON_INTERPRET="1", OMP_NUM_THREADS="1", OCTAVO_TEST_DEVICE="cpu")


@pytest.mark.gpu
def test_the_kernels_compiled_give_the_references_answers() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: torch sees none")
    run_cases(OCTAVO_TEST_DEVICE="cuda")
