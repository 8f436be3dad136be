"""The folder of one running server: sockets and heartbeat, held by a lock so that two servers never share it."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from octavo_runtime.config import ConfigError

DEFAULT = Path("/run/octavo")
_LONGEST_SOCKET_PATH = 107  # bytes of sun_path on Linux
_SOCKETS = ("engine.sock", "control.sock")


@contextlib.contextmanager
def held_run_dir(asked: str | None) -> Iterator[Path]:
    """The folder, created and locked until the block ends. Raises ConfigError where it cannot be used.

    Without `asked`: /run/octavo if it is there, writable and free, else a new folder that is removed at the end.
    """
    with contextlib.ExitStack() as stack:
        yield _asked(asked, stack) if asked is not None else _default(stack)


def _asked(asked: str, stack: contextlib.ExitStack) -> Path:
    path = Path(asked).absolute()
    _check_length(path)
    stack.enter_context(_lock(path))
    return path


def _default(stack: contextlib.ExitStack) -> Path:
    if os.access(DEFAULT, os.W_OK | os.X_OK):
        try:
            stack.enter_context(_lock(DEFAULT))
            return DEFAULT
        except ConfigError:
            pass  # another server has it
    path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="octavo-")))
    stack.enter_context(_lock(path))
    return path


def _check_length(path: Path) -> None:
    longest = max(len(os.fsencode(path / name)) for name in _SOCKETS)
    if longest > _LONGEST_SOCKET_PATH:
        raise ConfigError(
            f"--run-dir {path}: its sockets would have paths of {longest} bytes, the system takes {_LONGEST_SOCKET_PATH}: "
            "give a shorter folder"
        )


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"--run-dir {path} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise ConfigError(f"--run-dir {path} belongs to another running server: give each its own") from error
    try:
        yield
    finally:
        os.close(descriptor)
