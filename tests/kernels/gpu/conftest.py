"""Where the kernels of this folder run: interpreted on the CPU or, with `pytest -m gpu`, compiled on a GPU.

Triton decides at a function's definition, by TRITON_INTERPRET, whether it will be interpreted, its own library's functions at its
import included. So the variable is set while these tests are collected and while they run, and not for the processes that other
tests start in between.
"""

import os
import sys

import pytest
import torch

VARIABLE = "TRITON_INTERPRET"


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("markexpr") == "gpu":
        return
    if "triton" in sys.modules and VARIABLE not in os.environ:
        raise pytest.UsageError(
            "tests/kernels/gpu: triton was imported before it could be told to interpret: name this folder before others on "
            f"pytest's command line, or set {VARIABLE}=1"
        )
    os.environ[VARIABLE] = "1"


def pytest_collection_finish(session: pytest.Session) -> None:
    os.environ.pop(VARIABLE, None)


@pytest.fixture(scope="session")
def interpreted(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("markexpr") != "gpu")


@pytest.fixture(autouse=True)
def interpretation(interpreted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter asks for the variable also while it runs."""
    if interpreted:
        monkeypatch.setenv(VARIABLE, "1")


@pytest.fixture(params=[pytest.param("cpu"), pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, interpreted: bool) -> torch.device:
    """Each kernel test twice: interpreted, and marked `gpu`."""
    if request.param == "cuda" and interpreted:
        pytest.skip("needs a GPU: `make test-gpu` runs it")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU: torch sees none")
    return torch.device(request.param)
