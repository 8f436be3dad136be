"""Programs that live no longer than the process which starts them, even where that is killed amid a test."""

import shutil
from collections.abc import Sequence
from pathlib import Path

_SETPRIV = shutil.which("setpriv")


def bound(command: Sequence[str | Path]) -> list[str]:
    """The command line under which Linux asks the program to end with the thread that starts it; elsewhere `command` itself."""
    tied = [_SETPRIV, "--pdeathsig", "TERM"] if _SETPRIV else []
    return [*tied, *(str(word) for word in command)]
