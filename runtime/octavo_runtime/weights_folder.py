"""Where packed weights and a hub's models are kept when nobody says where.

Both in a user's own cache folder; weights, which can be packed again, never in what may be memory.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from octavo_runtime.config import NO_CACHE

_PASSING = ("/tmp", "/var/tmp", "/run", "/dev")  # emptied at a restart, often memory
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
_CONTAINER_VARIABLES = ("KUBERNETES_SERVICE_HOST", "container")


def settled_folder(asked: str | None, environment: Mapping[str, str]) -> str:
    """`--weights-cache` as it was given, else `octavo/weights` in the user's cache folder, or "none" where that may not last."""
    if asked is not None:
        return asked
    home = environment.get("HOME", "")
    base = Path(environment.get("XDG_CACHE_HOME") or Path(home, ".cache"))
    if _in_container(environment) or not _lasts(Path(home)) or not base.is_absolute() or _passes(base):
        return NO_CACHE
    return str(base / "octavo" / "weights")


def models_folder(asked: str | None, environment: Mapping[str, str]) -> Path:
    """`--model-cache` as it was given, else `octavo/models` in the user's cache folder."""
    if asked is not None:
        return Path(asked)
    base = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or "/tmp", ".cache"))
    return base / "octavo" / "models"


def _in_container(environment: Mapping[str, str]) -> bool:
    named = any(name in environment for name in _CONTAINER_VARIABLES)
    return named or any(Path(name).exists() for name in _CONTAINER_FILES)


def _lasts(home: Path) -> bool:
    """Whether it is this user's own folder."""
    try:
        return home.is_absolute() and home.is_dir() and home.stat().st_uid == os.geteuid() and not _passes(home)
    except OSError:
        return False


def _passes(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _PASSING)
