"""`octavo manifest export`: the shapes that a running server's traffic met, for `--warmup-manifest` of the next."""

import sys
from pathlib import Path

from octavo_runtime.engine.traffic import MANIFEST


def export(run_dir: str) -> int:
    """Print it: 0, or 1 where there is none (yet)."""
    path = Path(run_dir) / MANIFEST
    try:
        print(path.read_text())
    except OSError as error:
        there = path.parent.is_dir()
        remedy = "a server writes it there within a minute of its traffic" if there else "give the server's --run-dir"
        print(f"octavo manifest: {path}: {error.strerror}; {remedy}", file=sys.stderr)
        return 1
    return 0
