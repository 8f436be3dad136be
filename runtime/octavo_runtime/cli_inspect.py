"""`octavo inspect`: what a model needs of memory, as JSON; the operator asks a pod for it before any model is loaded."""

import sys
from pathlib import Path

from octavo_runtime.source.inspection import ERRORS, inspect
from octavo_runtime.source.reference import unreadable
from octavo_sizing.errors import SizingError


def show(source: str, token_file: str | None, termination_log: str | None) -> int:
    """Print it: 0, or 1 with the reason. `termination_log`: where a container leaves the same for Kubernetes."""
    try:
        text = inspect(source, token_file).to_json()
        code = 0
    except OSError as error:
        text, code = f"octavo inspect: {unreadable(error)}", 1
    except (*ERRORS, SizingError) as error:
        text, code = f"octavo inspect: {' '.join(str(error).split())}", 1
    print(text, file=sys.stderr if code else sys.stdout)
    if termination_log is not None:
        try:
            Path(termination_log).write_text(text)
        except OSError as error:
            print(f"octavo inspect: --termination-log {termination_log}: {error.strerror}", file=sys.stderr)
            return 1
    return code
