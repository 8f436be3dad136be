"""`octavo bench`: runs a benchmark of the source checkout, or lists them.

The benchmarks are not part of the installed package: they compare with other libraries and use the tests' models. A benchmark is a
module of `bench/` that can be run as a program; `octavo bench NAME …` is `python -m bench.NAME …` from the checkout that this
package was installed from (`make setup` installs it editable).
"""

import ast
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]


def bench(name: str | None, arguments: Sequence[str], checkout: Path = _CHECKOUT) -> int:
    """The benchmark's exit code; 2 when there is no such benchmark or no checkout."""
    if not (checkout / "bench" / "__init__.py").is_file():
        print(
            "octavo bench: the benchmarks are not part of the installed package: clone Octavo's repository, run `make setup` there "
            "and then `.venv/bin/octavo bench`",
            file=sys.stderr,
        )
        return 2
    known = benchmarks(checkout)
    if name is None:
        width = max(map(len, known), default=0)
        print("\n".join(f"{each:<{width}}  {text}" for each, text in known.items()))
        return 0
    if name not in known:
        print(f"octavo bench: there is no benchmark '{name}': choose from {', '.join(known)}", file=sys.stderr)
        return 2
    return _run(name, arguments, checkout)


def benchmarks(checkout: Path = _CHECKOUT) -> dict[str, str]:
    """The modules of `bench/` that are programs, with the first sentence of what they say of themselves."""
    found = {}
    for path in sorted([*(checkout / "bench").glob("*.py"), *(checkout / "bench").glob("*/__main__.py")]):
        source = ast.parse(path.read_text(encoding="utf-8"))
        package = path.name == "__main__.py"
        if package or any(_is_program(statement) for statement in source.body):
            text = (ast.get_docstring(source) or "").partition("\n\n")[0].replace("\n", " ")
            found[path.parent.name if package else path.stem] = text
    return found


def _is_program(statement: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__"`."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"


def _run(name: str, arguments: Sequence[str], checkout: Path) -> int:
    sys.path.insert(0, str(checkout))
    sys.argv = [f"octavo bench {name}", *arguments]
    try:
        runpy.run_module(f"bench.{name}", run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    return 0
