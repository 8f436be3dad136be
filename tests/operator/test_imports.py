"""The operator runs from its own extra: nothing of the runtime's libraries is imported, even where they are installed."""

import ast
import subprocess
import sys
from pathlib import Path

import octavo_operator

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


def importers(package: str) -> set[str]:
    """The operator's modules that import `package`."""
    root = Path(octavo_operator.__file__).parent
    found = set()
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == package for name in imported):
                found.add(str(file.relative_to(root)))
    return found


def test_only_the_edges_know_the_frameworks() -> None:
    assert importers("kopf") == {"handlers.py", "__main__.py"}
    assert importers("kubernetes") == {"access.py", "kube.py", "transport.py"}


def test_what_decides_waits_for_nothing() -> None:
    pure = {
        "allowances.py",
        "apply.py",
        "backoff.py",
        "conditions.py",
        "contention.py",
        "doubts.py",
        "groups.py",
        "installation.py",
        "kinds.py",
        "observed.py",
        "pins.py",
        "plan.py",
        "prospects.py",
        "quantity.py",
        "reports.py",
        "routing.py",
        "service.py",
        "standing.py",
        "status.py",
        "strategy.py",
    }
    root = Path(octavo_operator.__file__).parent
    folders = {
        str(file.relative_to(root))
        for folder in ("capacity", "desired", "spec")
        for file in (root / folder).rglob("*.py")
    }
    assert not importers("asyncio") & (pure | folders)
    assert not importers("aiohttp") & (pure | folders)


def test_the_operators_pinned_dependencies_hold_no_torch() -> None:
    pinned = (Path(__file__).parents[2] / "requirements" / "operator.txt").read_text()
    names = {line.partition("==")[0] for line in pinned.splitlines() if "==" in line}
    assert "kopf" in names
    assert not names & set(FORBIDDEN)
