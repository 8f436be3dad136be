"""The operator runs from its own extra: nothing of the runtime's libraries is imported, even where they are installed."""

import subprocess
import sys

FORBIDDEN = (
    "torch",
    "triton",
    "transformers",
    "tokenizers",
    "fastapi",
    "uvicorn",
    "octavo_runtime",
    "octavo_kernels",
    "numpy",
)
PROGRAM = f"""
import importlib, pkgutil, sys

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {FORBIDDEN!r}:
            raise ImportError(f"{{name}} is not of the operator's extra")
        return None

sys.meta_path.insert(0, Refusal())
import octavo_operator
for module in pkgutil.walk_packages(octavo_operator.__path__, "octavo_operator."):
    importlib.import_module(module.name)
    print(module.name)
"""


def test_every_module_imports_without_the_runtimes_libraries() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert {"octavo_operator.__main__", "octavo_operator.kube", "octavo_operator.desired.pod_v1"} <= set(
        done.stdout.split()
    )
