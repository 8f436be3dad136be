"""The Unix socket over which `octavo preload` answers what it holds: a connection gets one line of JSON."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from octavo_runtime.config import ConfigError
from octavo_runtime.preload.keeper import ModelState

NAME = "preload.sock"
_LONGEST_PATH = 107  # bytes of sun_path on Linux
_PATIENCE_S = 10.0


class Status(msgspec.Struct, frozen=True):
    """`doing` is empty once all models are there."""

    pid: int
    models: list[ModelState]
    doing: str = ""


@contextlib.contextmanager
def answering(path: Path, status: Callable[[], Status]) -> Iterator[None]:
    """Whoever asks is answered by a thread, at once, whatever the block is busy with. Raises ConfigError as `_listening` does."""
    with _listening(path) as server:
        thread = threading.Thread(target=_answer, args=(server, status), name="preload-status", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextlib.contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """Raises ConfigError where another process answers there or the path cannot be."""
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise ConfigError(f"--socket {path}: the system takes paths of {_LONGEST_PATH} bytes: give a shorter one")
    if (other := ask(path)) is not None:
        raise ConfigError(f"--socket {path}: process {other.pid} answers there: end it or give another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            server.bind(str(path))
        except OSError as error:
            raise ConfigError(f"--socket {path} cannot be used: {error.strerror}") from error
        server.listen()
        try:
            yield server
        finally:
            path.unlink(missing_ok=True)


def _answer(server: socket.socket, status: Callable[[], Status]) -> None:
    """Each connection, until the server is shut down. A client that goes away meanwhile is its own affair."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError):
            connection.settimeout(_PATIENCE_S)
            connection.sendall(msgspec.json.encode(status()) + b"\n")


def ask(path: Path) -> Status | None:
    """What the process at `path` holds; None where nobody answers."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_PATIENCE_S)
            client.connect(str(path))
            with client.makefile("rb") as lines:
                return msgspec.json.decode(lines.readline(), type=Status)
    except (OSError, msgspec.MsgspecError):
        return None
