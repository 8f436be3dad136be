"""Imports that must stay cheap or apart, tried in processes of their own where the forbidden libraries cannot be imported."""

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, pkgutil, sys

forbidden, names = sys.argv[1].split(","), sys.argv[2:]

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in forbidden:
            raise ImportError(f"{name} is not to be imported here")
        return None

sys.meta_path.insert(0, Refusal())
for name in names:
    module = importlib.import_module(name)
    print(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{name}."):
        importlib.import_module(found.name)
        print(found.name)
"""
RUNTIME = "octavo_runtime"
DECIDING = [f"{RUNTIME}.engine.{name}" for name in ("scheduler", "block_pool", "admission", "request", "plan")]


def imported(forbidden: list[str], *names: str) -> set[str]:
    """The modules and all below them, imported without `forbidden`."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(forbidden), *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("forbidden", "names", "among"),
    [
        pytest.param(
            ["torch", "triton", "transformers", "octavo_kernels", "kopf", "kubernetes"],
            [f"{RUNTIME}.server", f"{RUNTIME}.text"],
            {f"{RUNTIME}.server.app", f"{RUNTIME}.server.process", f"{RUNTIME}.text.gguf_tokenizer"},
            id="the API process has no torch and no transformers",
        ),
        pytest.param(
            ["torch", "transformers", "tokenizers", "fastapi", "uvicorn", "zmq", "gguf", "numpy"],
            [f"{RUNTIME}.cli", f"{RUNTIME}.cli_drain"],
            {f"{RUNTIME}.cli"},
            id="the command line begins light",
        ),
        pytest.param(
            ["torch", "transformers", "octavo_kernels"],
            DECIDING,
            set(DECIDING),
            id="what decides knows no torch",
        ),
        pytest.param(
            ["transformers", "kopf", "kubernetes", "fastapi", "uvicorn"],
            [f"{RUNTIME}.engine", f"{RUNTIME}.model"],
            {f"{RUNTIME}.model.weights", f"{RUNTIME}.engine.process"},
            id="the engine has no server and no transformers",
        ),
    ],
)
def test_imports_without(forbidden: list[str], names: list[str], among: set[str]) -> None:
    assert among <= imported(forbidden, *names)


def test_what_is_forbidden_would_be_noticed() -> None:
    with pytest.raises(AssertionError, match="torch is not to be imported here"):
        imported(["torch"], "octavo_kernels.reference")
